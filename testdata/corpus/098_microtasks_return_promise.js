// constructs: microtask order, returning a promise from then costs ticks
// order: partial
const p = Promise.resolve().then(() => Promise.resolve("nested")).then((v) => mcp.rec.echo({ value: v }));
const q = Promise.resolve().then(() => {}).then(() => {}).then(() => {}).then(() => mcp.rec.echo({ value: "three ticks" }));
const rs = await Promise.all([p, q]);
return rs.map((r) => r.value);
