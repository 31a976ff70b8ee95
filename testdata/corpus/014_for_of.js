// constructs: for…of with await, accumulated state
let text = "";
for (const p of ["a", "b", "c"]) {
  text += (await mcp.rec.read({ path: p })) + ";";
}
await mcp.rec.write({ path: "all", content: text });
return text;
