// constructs: reassigned variables
let p = "a.txt";
const a = await mcp.rec.read({ path: p });
p = "b.txt";
const b = await mcp.rec.read({ path: p });
p = p.replace("b", a.length);
const c = await mcp.rec.read({ path: p });
return [a, b, c];
