// constructs: optional call of a tool
const server = mcp.rec;
const r = await server?.echo?.({ value: "opt" });
return r?.value;
