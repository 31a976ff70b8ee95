// constructs: switch, fallthrough, default
const out = [];
for (const k of ["a", "b", "c", "z"]) {
  switch ((await mcp.rec.echo({ value: k })).value) {
    case "a":
      out.push("A");
    case "b":
      out.push((await mcp.rec.echo({ value: "B of " + k })).value);
      break;
    case "c":
      out.push("C");
      break;
    default:
      out.push((await mcp.rec.read({ path: k })));
  }
}
return out;
