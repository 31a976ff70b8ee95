// constructs: const enum
const enum Mode { Read = "r", Write = "w" }
const modes: Mode[] = [Mode.Write, Mode.Read];
return (await mcp.rec.echo({ value: modes })).value;
