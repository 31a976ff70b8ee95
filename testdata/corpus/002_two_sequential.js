// constructs: sequential awaits
const a = await mcp.rec.echo({ value: "a" });
const b = await mcp.rec.echo({ value: a.value + "b" });
return [a.value, b.value];
