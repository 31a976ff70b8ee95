// constructs: nested object arguments
const r = await mcp.rec.echo({ value: { a: { b: { c: [{ d: 1 }, { e: [null, true, "x"] }] } } } });
return r.value.a.b.c[1].e;
