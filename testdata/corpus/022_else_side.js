// constructs: if/else if/else, calls in conditions
const pick = async (v) => (await mcp.rec.echo({ value: v })).value;
if (await pick(0)) {
  return "first";
} else if ((await pick("")) || (await pick(null))) {
  return "second";
} else {
  return await pick("third");
}
