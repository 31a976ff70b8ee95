// constructs: return in the middle
const a = await mcp.rec.list({ n: 0 });
if (a.length === 0) return "empty";
await mcp.rec.danger({ x: "never" });
return "full";
