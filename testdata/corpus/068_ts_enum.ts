// constructs: enum, reverse mapping
enum Level { Low = 1, High = 10, Text = "t" }
const r = await mcp.rec.echo({ value: Level.High });
return [r.value, Level[1], Level.Text, Level[r.value]];
