// constructs: undefined and null in arguments, no arguments
const a = await mcp.rec.echo();
const b = await mcp.rec.echo({ value: undefined, other: undefined });
const c = await mcp.rec.echo({ value: [undefined, null, () => 1] });
const d = await mcp.rec.echo(undefined);
return [a.value, b.value, c.value, d.value];
