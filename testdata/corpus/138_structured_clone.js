// constructs: structuredClone of a result
const r = await mcp.rec.echo({ value: { a: [1, { b: 2 }] } });
const c = structuredClone(r);
c.value.a[1].b = 3;
return [r.value.a[1].b, c.value.a[1].b];
