// constructs: recursion, branching, Promise.all
// order: partial
async function tree(path, depth) {
  const r = await mcp.rec.read({ path: path + ".json" });
  if (depth === 0) return r.size;
  const kids = await Promise.all([tree(path + "l", depth - 1), tree(path + "r", depth - 1)]);
  return [r.size, kids];
}
return await tree("t", 2);
