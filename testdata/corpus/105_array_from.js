// constructs: Array.from with calls, Promise.all
// order: partial
const rs = await Promise.all(Array.from({ length: 3 }, (_, i) => mcp.rec.echo({ value: i })));
return Array.from(rs, (r) => r.value);
