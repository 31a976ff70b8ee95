// constructs: tool name from a result
const t = (await mcp.rec.echo({ value: "read" })).value;
return await mcp.rec[t]({ path: "by-name" });
