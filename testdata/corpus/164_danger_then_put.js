// constructs: destructive call, then idempotent one
const d = await mcp.rec.danger({ x: "disk" });
const p = await mcp.rec.put({ key: "state", value: d.done });
return [d, p];
