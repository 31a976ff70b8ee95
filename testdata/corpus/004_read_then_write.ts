// constructs: read then write, types
const text: string = await mcp.rec.read({ path: "in.txt" });
const done: { path: string; bytes: number } = await mcp.rec.write({ path: "out.txt", content: text.toUpperCase() });
return done.bytes;
