// constructs: non-ASCII text
const r = await mcp.rec.echo({ value: "Grüße, 世界, ελληνικά, עברית" });
const t = await mcp.rec.read({ path: "døcs/naïve.txt" });
return [r.value, r.value.length, t];
