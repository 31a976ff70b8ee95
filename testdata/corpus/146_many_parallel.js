// constructs: many parallel calls
// order: partial
const rs = await Promise.all(Array.from({ length: 40 }, (_, i) => mcp.rec.echo({ value: i })));
return rs.reduce((s, r) => s + r.value, 0);
