// constructs: uncaught tool error
// throws: it broke
await mcp.rec.echo({ value: "before" });
await mcp.rec.fail({ message: "it broke" });
await mcp.rec.echo({ value: "never" });
