// constructs: for with await
const out = [];
for (let i = 0; i < 4; i++) {
  const r = await mcp.rec.echo({ value: i * i });
  out.push(r.value);
}
return out;
