// constructs: no return value
await mcp.rec.echo({ value: 1 });
