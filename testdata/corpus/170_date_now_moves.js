// constructs: Date.now never goes back
const t0 = Date.now();
await mcp.rec.slow({ ms: 10, value: 0 });
const t1 = Date.now();
return [t1 >= t0, typeof t0, new Date() >= t0];
