// constructs: undefined members in the result
const r = await mcp.rec.echo({ value: null });
return { a: undefined, b: r.value, c: [undefined, 1], d: () => 1 };
