// constructs: destructuring with defaults and rest
const { value: { a, b = "default", ...rest } } = await mcp.rec.echo({ value: { a: 1, c: 3, d: 4 } });
const [first, , third = "none", ...more] = await mcp.rec.list({ n: 5 });
return { a, b, rest, first, third, more };
