// constructs: Map and Set
const m = new Map();
for (const k of ["b", "a", "b"]) m.set(k, (await mcp.rec.inc({ key: k })).count);
const s = new Set([...m.values()]);
return { m: [...m], keys: [...m.keys()].sort(), s: [...s], has: m.has("a") };
