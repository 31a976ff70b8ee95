// constructs: a server that prints on stdout
const a = await mcp.rec.noise({ text: "not json {" });
const b = await mcp["my-rec"].noise({ text: "{\"jsonrpc\":\"nope\"}" });
return [a, b];
