// constructs: un-awaited calls before and after awaited ones
// order: partial
mcp.rec.write({ path: "log", content: "fire and forget" });
const r = await mcp.rec.echo({ value: "main" });
mcp.rec.write({ path: "log2", content: "last" });
return r.value;
