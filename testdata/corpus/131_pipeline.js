// constructs: start early, await late
// order: partial
const a = mcp.rec.echo({ value: "a" });
const b = mcp.rec.echo({ value: "b" });
const ra = await a;
const c = await mcp.rec.echo({ value: ra.value + "c" });
const rb = await b;
return [ra.value, rb.value, c.value];
