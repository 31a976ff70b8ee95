// constructs: labelled block
let out = "start";
block: {
  if ((await mcp.rec.echo({ value: true })).value) break block;
  out = (await mcp.rec.echo({ value: "never" })).value;
}
return out;
