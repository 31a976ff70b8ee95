// constructs: single call
const r = await mcp.rec.echo({ value: 1 });
return r.value;
