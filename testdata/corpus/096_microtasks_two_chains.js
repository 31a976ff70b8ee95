// constructs: Promise.resolve, two chains whose microtasks interleave
// order: partial
const seen = [];
const a = Promise.resolve().then(() => seen.push("a1")).then(() => seen.push("a2")).then(() => mcp.rec.echo({ value: "A" }));
const b = Promise.resolve().then(() => seen.push("b1")).then(() => mcp.rec.echo({ value: "B" }));
await Promise.all([a, b]);
return seen;
