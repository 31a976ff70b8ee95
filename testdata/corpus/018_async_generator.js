// constructs: async generator, for await
async function* pages(n) {
  for (let i = 0; i < n; i++) yield await mcp.rec.echo({ value: "page " + i });
}
const out = [];
for await (const p of pages(3)) out.push(p.value);
return out;
