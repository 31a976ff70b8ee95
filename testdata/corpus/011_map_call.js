// constructs: map with a call inside, Promise.all
// order: partial
const names = ["a", "b", "c", "d"];
const rs = await Promise.all(names.map((n) => mcp.rec.read({ path: n + ".json" })));
return rs.map((r) => r.path + ":" + r.size);
