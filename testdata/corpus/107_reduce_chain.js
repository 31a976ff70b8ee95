// constructs: reduce as a chain of promises
const out = [];
await ["a", "b", "c"].reduce((p, k) => p.then(() => mcp.rec.put({ key: k, value: 1 })).then((r) => { out.push(r.key); }), Promise.resolve());
return out;
