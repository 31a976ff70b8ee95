// constructs: non-ASCII identifiers
const größe = 3, π = 3.14, 変数 = "v";
const r = await mcp.rec.echo({ value: { größe, π, 変数 } });
const { größe: g } = r.value;
return [g, r.value["変数"]];
