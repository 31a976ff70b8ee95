// constructs: Promise.all, then a call with the results
// order: partial
const parts = await Promise.all([mcp.rec.read({ path: "x" }), mcp.rec.read({ path: "y" })]);
const out = await mcp.rec.write({ path: "xy", content: parts.join("+") });
return { out, parts };
