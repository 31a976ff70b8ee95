// constructs: promise chain with then
return await mcp.rec.echo({ value: 1 })
  .then((r) => mcp.rec.echo({ value: r.value + 1 }))
  .then((r) => mcp.rec.echo({ value: r.value * 10 }))
  .then((r) => r.value);
