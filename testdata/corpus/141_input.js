// constructs: input
// input: {"paths": ["p1", "p2"], "n": 2}
const out = [];
for (const p of input.paths) out.push(await mcp.rec.read({ path: p }));
return { out, n: input.n };
