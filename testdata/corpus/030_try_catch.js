// constructs: try/catch of a tool failure
try {
  await mcp.rec.fail({ message: "boom" });
  return "not here";
} catch (e) {
  return [e instanceof Error, e.name, e.message, e.code, e.tool];
}
