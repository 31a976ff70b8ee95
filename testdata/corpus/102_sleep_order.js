// constructs: several timers, order by due time
const out = [];
const at = (ms, v) => new Promise((ok) => setTimeout(() => { out.push(v); ok(); }, ms));
await Promise.all([at(90, "third"), at(1, "first"), at(45, "second")]);
await mcp.rec.echo({ value: out });
return out;
