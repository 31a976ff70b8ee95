// constructs: template strings, nested
const n = await mcp.rec.echo({ value: 7 });
const r = await mcp.rec.read({ path: `dir/${n.value}/${`in${n.value + 1}`}.txt` });
return `${r}!`;
