// constructs: object literal with awaits, evaluation order
const o = { x: await mcp.rec.inc({ key: "o" }), ["k" + (await mcp.rec.inc({ key: "o" })).count]: await mcp.rec.inc({ key: "o" }) };
return o;
