// constructs: mcp is no promise; awaiting it changes nothing
const m = await mcp;
const s = await mcp.rec;
return [(await m.rec.echo({ value: 1 })).value, (await s.echo({ value: 2 })).value, mcp.then === undefined, mcp.rec.then === undefined];
