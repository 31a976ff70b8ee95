// constructs: table of async functions
const ops = {
  async read(p) { return await mcp.rec.read({ path: p }); },
  size: async (p) => (await mcp.rec.read({ path: p + ".json" })).size,
  *names() { yield "read"; yield "size"; },
};
const out = {};
for (const n of ops.names()) out[n] = await ops[n]("f");
return out;
