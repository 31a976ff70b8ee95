// constructs: batches of parallel calls in a loop
// order: partial
const out = [];
for (let i = 0; i < 6; i += 3) {
  const rs = await Promise.all([0, 1, 2].map((j) => mcp.rec.echo({ value: i + j })));
  out.push(...rs.map((r) => r.value));
}
return out;
