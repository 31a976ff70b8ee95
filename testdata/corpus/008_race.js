// constructs: Promise.race, slow call
// order: partial
const r = await Promise.race([
  mcp.rec.slow({ ms: 2000, value: "slow" }),
  mcp.rec.echo({ value: "fast" }),
]);
return r.value;
