// constructs: dates as JSON
const d = new Date(Date.UTC(2026, 10, 21, 2, 35, 22, 7));
const r = await mcp.rec.echo({ value: { d, y: d.getUTCFullYear() } });
return [r.value.d, new Date(r.value.d).getTime() === d.getTime(), new Date(0)];
