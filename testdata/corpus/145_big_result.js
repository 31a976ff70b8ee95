// constructs: results of many bytes
const t = await mcp.rec.big({ bytes: 300000 });
const r = await mcp.rec.echo({ value: t.slice(0, 5000) });
return [t.length, r.value.length, t[299999]];
