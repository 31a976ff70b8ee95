// constructs: default parameters with calls, evaluated per call
async function f(a = mcp.rec.inc({ key: "def" }), b = 2) { return [(await a).count ?? a, b]; }
return [await f(), await f(undefined, 3), await f({ count: 9 })];
