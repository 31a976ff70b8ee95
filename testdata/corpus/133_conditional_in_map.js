// constructs: map with a condition around the call
// order: partial
const xs = await mcp.rec.list({ n: 5 });
return await Promise.all(xs.map((x) => (x % 2 ? mcp.rec.echo({ value: x }).then((r) => r.value * 100) : x)));
