// constructs: recursion with await
async function walk(n) {
  if (n === 0) return [];
  const r = await mcp.rec.echo({ value: n });
  return [r.value, ...(await walk(n - 1))];
}
return await walk(4);
