// constructs: one promise awaited twice, result used twice
const p = mcp.rec.inc({ key: "once" });
const a = await p;
const b = await p;
const c = await mcp.rec.echo({ value: [a, b] });
return [a === b, c.value];
