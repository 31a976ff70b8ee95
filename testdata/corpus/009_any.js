// constructs: Promise.any, failures
// order: partial
const r = await Promise.any([
  mcp.rec.fail({ message: "one" }),
  mcp.rec.echo({ value: "won" }),
  mcp.rec.fail({ message: "two" }),
]);
return r.value;
