// constructs: for…in with await
const want = { x: 1, y: 2, z: 3 };
const got = {};
for (const k in want) {
  got[k] = (await mcp.rec.put({ key: k, value: want[k] })).value + 1;
}
return got;
