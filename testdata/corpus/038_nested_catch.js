// constructs: nested try/catch, error passed through layers
async function low() { return mcp.rec.fail({ message: "low" }); }
async function mid() {
  try { return await low(); } catch (e) { throw new TypeError("mid<" + e.message, { cause: e }); }
}
try {
  await mid();
} catch (e) {
  return [e.name, e.message, e.cause.code, e.cause.tool];
}
