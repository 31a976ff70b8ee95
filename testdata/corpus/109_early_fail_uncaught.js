// constructs: Promise.all that fails early, uncaught, others in flight
// order: partial
// throws: first
await Promise.all([mcp.rec.echo({ value: 1 }), mcp.rec.fail({ message: "first" }), mcp.rec.echo({ value: 2 })]);
