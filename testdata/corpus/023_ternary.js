// constructs: ternary with calls
const flag = (await mcp.rec.echo({ value: true })).value;
const r = flag ? await mcp.rec.echo({ value: "yes" }) : await mcp.rec.write({ path: "never", content: "" });
return r;
