// constructs: ||=, &&=, ??=
let a = null, b = 1, c = 0;
a ??= (await mcp.rec.echo({ value: "set" })).value;
b &&= (await mcp.rec.echo({ value: "replaced" })).value;
c ||= (await mcp.rec.echo({ value: "filled" })).value;
b ??= (await mcp.rec.echo({ value: "never" })).value;
return [a, b, c];
