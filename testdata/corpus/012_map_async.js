// constructs: map with an async callback of two calls
// order: partial
const rs = await Promise.all([1, 2, 3].map(async (n) => {
  const a = await mcp.rec.echo({ value: n });
  const b = await mcp.rec.echo({ value: a.value * 10 });
  return b.value;
}));
return rs;
