// constructs: alias of a server
const r = mcp.rec;
const other = mcp["my-rec"];
return [(await r.echo({ value: 1 })).value, (await other.echo({ value: 2 })).value];
