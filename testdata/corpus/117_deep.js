// constructs: deep structures
let v = "leaf";
for (let i = 0; i < 60; i++) v = i % 2 ? { v } : [v];
const r = await mcp.rec.echo({ value: v });
let depth = 0;
for (let x = r.value; typeof x !== "string"; depth++) x = Array.isArray(x) ? x[0] : x.v;
return depth;
