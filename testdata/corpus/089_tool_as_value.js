// constructs: tools as values, passed to functions
// order: partial
const apply = (f, xs) => Promise.all(xs.map((x) => f({ value: x })));
const rs = await apply(mcp.rec.echo, [1, 2]);
const bound = mcp.rec.echo.bind(null, { value: "bound" });
return [rs.map((r) => r.value), (await bound()).value];
