// constructs: if/else with a call on each side
const r = await mcp.rec.read({ path: "conf.json" });
let out;
if (r.size > 5) {
  out = await mcp.rec.echo({ value: "long" });
} else {
  out = await mcp.rec.echo({ value: "short" });
}
return out.value;
