// constructs: Symbol.iterator
const range = { *[Symbol.iterator]() { for (let i = 1; i <= 3; i++) yield i; } };
const out = [];
for (const i of range) out.push((await mcp.rec.echo({ value: i })).value);
return [out, [...range]];
