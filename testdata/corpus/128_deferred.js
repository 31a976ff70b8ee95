// constructs: a promise resolved from elsewhere
let open;
const gate = new Promise((ok) => { open = ok; });
const waiter = (async () => { const v = await gate; return (await mcp.rec.echo({ value: "got " + v })).value; })();
await mcp.rec.echo({ value: "first" });
open("key");
return await waiter;
