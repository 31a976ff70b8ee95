// constructs: input that was not given
const r = await mcp.rec.echo({ value: input });
return [input, r.value];
