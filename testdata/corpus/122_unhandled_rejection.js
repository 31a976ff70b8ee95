// constructs: unhandled rejection of an un-awaited call fails the run
// order: partial
// throws: nobody listens
mcp.rec.fail({ message: "nobody listens" });
const r = await mcp.rec.echo({ value: "fine" });
return r.value;
