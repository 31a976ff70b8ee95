// Blocks calls above a number within a time, counted for all processes together.
const { limit, seconds, per } = context.parameters;
const { clientId, serverName, toolName } = context.metadata;
const key = { tool: `${serverName}:${toolName}`, server: serverName, client: clientId, all: "all" }[per];
return { effects: [{ tool: "count", arguments: { key, limit, seconds } }] };
