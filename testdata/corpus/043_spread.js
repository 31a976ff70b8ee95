// constructs: spread in objects, arrays and calls
const base = { value: { a: 1, b: 2 } };
const r = await mcp.rec.echo({ ...base, value: { ...base.value, b: 3, c: [...[1, 2], ...new Set([2, 3])] } });
const m = Math.max(...r.value.c);
return [r.value, m];
