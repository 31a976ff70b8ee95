// constructs: Promise.any, AggregateError
// order: partial
try {
  await Promise.any([mcp.rec.fail({ message: "1" }), mcp.rec.fail({ message: "2" })]);
} catch (e) {
  return [e instanceof AggregateError, e.errors.map((x) => x.message)];
}
