// constructs: BigInt arithmetic, sent as text
const n = 2n ** 80n + BigInt((await mcp.rec.list({ n: 3 })).length);
return (await mcp.rec.echo({ value: n.toString() })).value;
