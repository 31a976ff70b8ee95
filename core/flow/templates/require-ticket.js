// Blocks a call that names no ticket in its arguments.
const pattern = new RegExp(context.parameters.pattern);
const has = (v) => typeof v === "string" ? pattern.test(v) : v && typeof v === "object" ? Object.values(v).some(has) : false;
if (has(context.request.params.arguments)) return;
return { block: { code: "ticket", message: `no ticket is named; write its number (${context.parameters.pattern}) into the call` } };
