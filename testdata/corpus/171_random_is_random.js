// constructs: Math.random and randomUUID, only their form
const r = Math.random(), s = Math.random(), id = crypto.randomUUID();
await mcp.rec.echo({ value: r >= 0 && r < 1 && r !== s });
return [/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id), id !== crypto.randomUUID()];
