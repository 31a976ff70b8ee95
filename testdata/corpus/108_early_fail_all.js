// constructs: Promise.all that fails early with others in flight, caught
// order: partial
try {
  await Promise.all([mcp.rec.slow({ ms: 40, value: 1 }), mcp.rec.fail({ message: "early" }), mcp.rec.slow({ ms: 30, value: 2 })]);
} catch (e) {
  const r = await mcp.rec.echo({ value: "after " + e.message });
  return r.value;
}
