// constructs: diamond of dependencies
// order: partial
const top = await mcp.rec.echo({ value: 1 });
const [l, r] = await Promise.all([mcp.rec.echo({ value: top.value + 1 }), mcp.rec.echo({ value: top.value + 2 })]);
return (await mcp.rec.echo({ value: l.value * r.value })).value;
