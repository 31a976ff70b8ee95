// constructs: sleep by setTimeout
const sleep = (ms) => new Promise((ok) => setTimeout(ok, ms));
await mcp.rec.echo({ value: "before" });
await sleep(5);
await mcp.rec.echo({ value: "after" });
return "slept";
