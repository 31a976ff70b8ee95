// constructs: try/catch, goes on with another call
let text;
try {
  text = await mcp.rec.read({ path: "missing" });
} catch {
  text = await mcp.rec.read({ path: "fallback" });
}
return text;
