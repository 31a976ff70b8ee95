// constructs: yield* over async generators
async function* two(a) { yield (await mcp.rec.echo({ value: a })).value; yield (await mcp.rec.echo({ value: a + 1 })).value; }
async function* all() { yield* two(1); yield* two(10); return "end"; }
const out = [];
for await (const v of all()) out.push(v);
return out;
