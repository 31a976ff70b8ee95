// constructs: a rejection that is handled later
// order: partial
const p = mcp.rec.fail({ message: "later" });
await mcp.rec.slow({ ms: 30, value: 0 });
try { await p; } catch (e) { return "handled " + e.message; }
