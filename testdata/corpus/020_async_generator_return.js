// constructs: async generator, break, finally with a call
async function* numbers() {
  try {
    for (let i = 0; ; i++) yield (await mcp.rec.echo({ value: i })).value;
  } finally {
    await mcp.rec.write({ path: "closed", content: "x" });
  }
}
const out = [];
for await (const n of numbers()) {
  out.push(n);
  if (n === 2) break;
}
return out;
