// constructs: two servers in turn, same key on each
const out = [];
for (const s of [mcp.rec, mcp["my-rec"], mcp.rec]) out.push((await s.inc({ key: "k" })).count);
return out;
