// constructs: throw of something that is no Error, caught
try {
  await mcp.rec.echo({ value: 1 });
  throw { why: "object", n: 1 };
} catch ({ why, n }) {
  return [why, n];
}
