// constructs: && with calls
const yes = (await mcp.rec.echo({ value: 1 })).value && (await mcp.rec.echo({ value: "and" })).value;
const no = (await mcp.rec.echo({ value: 0 })).value && (await mcp.rec.danger({ x: "never" }));
return [yes, no];
