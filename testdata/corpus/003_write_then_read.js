// constructs: write then read
await mcp.rec.write({ path: "a.txt", content: "hello" });
const text = await mcp.rec.read({ path: "a.txt" });
return text;
