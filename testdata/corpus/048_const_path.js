// constructs: const p = "a.txt"
const p = "a.txt";
return await mcp.rec.read({ path: p });
