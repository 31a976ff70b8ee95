// constructs: many sequential calls with side effects
let last = 0;
for (let i = 0; i < 25; i++) last = (await mcp.rec.inc({ key: "many" })).count;
return last;
