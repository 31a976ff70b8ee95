// constructs: text result, JSON text result, structured result, list of contents
const t = await mcp.rec.read({ path: "t.txt" });
const j = await mcp.rec.read({ path: "t.json" });
const l = await mcp.rec.list({ n: 2 });
const m = await mcp.rec.texts({ texts: ["one", "two"] });
const e = await mcp.rec.texts({ texts: [] });
return [typeof t, typeof j, Array.isArray(l), m.map((c) => c.type + ":" + c.text), e];
