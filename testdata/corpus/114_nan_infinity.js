// constructs: NaN and Infinity become null
const r = await mcp.rec.echo({ value: [NaN, Infinity, -Infinity] });
return [r.value, NaN];
