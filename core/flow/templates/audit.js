// Writes each call with how it ended to the audit log (pml audit ls).
const { clientId, serverName, toolName } = context.metadata;
const how = context.error ? `failed: ${context.error.code}` : context.response?.isError ? "answered with an error" : "answered";
const args = JSON.stringify(context.request.params.arguments).slice(0, context.parameters.max_chars);
return { effects: [{ tool: "audit", arguments: { message: `${clientId} called ${serverName}:${toolName} ${args}: ${how}` } }] };
