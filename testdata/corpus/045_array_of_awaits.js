// constructs: [await A(), await B()]
const rs = [await mcp.rec.echo({ value: "A" }), await mcp.rec.echo({ value: "B" })];
return rs.map((r) => r.value).join("");
