// constructs: JSON text as a value
const text = JSON.stringify({ a: [1, "two", { "three \"quoted\"": "\u2028\n\t\\" }] }, null, 2);
const r = await mcp.rec.echo({ value: text });
return [JSON.parse(r.value), r.value === text];
