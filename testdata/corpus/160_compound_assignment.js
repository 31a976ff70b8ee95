// constructs: += reads before it awaits
// order: partial
let x = 1;
const add = async (n) => { x += (await mcp.rec.slow({ ms: n * 500, value: n })).value; };
await Promise.all([add(0), add(2), add(4)]);
return x;
