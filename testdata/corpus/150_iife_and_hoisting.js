// constructs: IIFE, hoisted functions, var scope
const out = await (async function () { return await helper("iife"); })();
for (var i = 0; i < 2; i++) await mcp.rec.echo({ value: i });
return [out, i];
async function helper(v) { return (await mcp.rec.echo({ value: v })).value; }
