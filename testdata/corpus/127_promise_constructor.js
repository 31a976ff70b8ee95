// constructs: new Promise around a call
const p = new Promise((ok, no) => { mcp.rec.echo({ value: "inside" }).then((r) => ok(r.value), no); });
return await p;
