// constructs: comma operator, void, typeof, delete
const o = { a: 1, b: 2 };
delete o.a;
const r = (await mcp.rec.echo({ value: "left" }), await mcp.rec.echo({ value: typeof o.a }));
return [r.value, void 0, "b" in o];
