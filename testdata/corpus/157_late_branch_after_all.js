// constructs: failure in one of several parallel branches, handled per branch
// order: partial
const safe = (p) => p.then((r) => r.value ?? r).catch(async (e) => (await mcp.rec.echo({ value: "instead of " + e.message })).value);
return await Promise.all([safe(mcp.rec.echo({ value: 1 })), safe(mcp.rec.fail({ message: "x" })), safe(mcp.rec.read({ path: "missing" }))]);
