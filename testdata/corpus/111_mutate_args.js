// constructs: arguments mutated after the call
const args = { value: { n: 1 } };
const p = mcp.rec.echo(args);
args.value.n = 99;
args.extra = true;
const r = await p;
r.value.n = 5;
const again = await mcp.rec.echo(args);
return [r.value, again.value];
