// constructs: emoji, surrogate pairs, code points
const r = await mcp.rec.echo({ value: "👩‍🚀🎉 ok" });
return [[...r.value].length, r.value.length, r.value.codePointAt(0), (await mcp.rec.read({ path: "🎉.txt" }))];
