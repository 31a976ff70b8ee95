// constructs: Object.entries, fromEntries, calls for each
// order: partial
const paths = { one: "1.json", two: "22.json" };
const got = Object.fromEntries(await Promise.all(Object.entries(paths).map(async ([k, p]) => [k, (await mcp.rec.read({ path: p })).size])));
return got;
