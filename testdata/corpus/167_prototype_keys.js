// constructs: keys named __proto__ and constructor
const r = await mcp.rec.echo({ value: JSON.parse('{"__proto__": {"x": 1}, "constructor": "c", "toString": 1}') });
return [Object.keys(r.value).sort(), ({}).x === undefined];
