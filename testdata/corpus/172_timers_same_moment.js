// constructs: timers that are due at the same moment, in the order in which they were set
const seen = [];
const at = (ms, name) => new Promise((ok) => setTimeout(() => { seen.push(name); ok(); }, ms));
await Promise.all([at(15, "b"), at(15, "c"), at(5, "a"), at(15, "d"), at(15, "e")]);
await mcp.rec.echo({ value: seen });
return seen;
