// constructs: Promise.all then use
// order: partial
const [a, b, c] = await Promise.all([
  mcp.rec.echo({ value: 1 }),
  mcp.rec.echo({ value: 2 }),
  mcp["my-rec"].echo({ value: 3 }),
]);
return a.value + b.value + c.value;
