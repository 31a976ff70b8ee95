// constructs: let per iteration in closures
const fs = [];
for (let i = 0; i < 3; i++) fs.push(() => mcp.rec.echo({ value: i }));
const out = [];
for (const f of fs.reverse()) out.push((await f()).value);
return out;
