// constructs: throw with a call in flight
// order: partial
// throws: stop here
mcp.rec.slow({ ms: 20, value: "in flight" });
await mcp.rec.echo({ value: 1 });
throw new Error("stop here");
