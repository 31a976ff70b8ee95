// constructs: finally that waits for a call
const r = await mcp.rec.echo({ value: "kept" }).finally(() => mcp.rec.write({ path: "f", content: "" }));
return r.value;
