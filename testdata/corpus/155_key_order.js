// constructs: key order of objects
const r = await mcp.rec.echo({ value: { b: 1, a: 2, 10: "ten", 2: "two" } });
return [Object.keys(r.value).sort(), JSON.stringify({ z: 1, 1: 2, a: 3 })];
