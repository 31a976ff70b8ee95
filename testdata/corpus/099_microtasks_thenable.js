// constructs: thenables
const thenable = { then(ok) { mcp.rec.echo({ value: "in then" }).then((r) => ok(r.value)); } };
const v = await thenable;
const w = await Promise.resolve(thenable);
return [v, w];
