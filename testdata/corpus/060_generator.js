// constructs: generator driving calls
function* plan() {
  const a = yield { tool: "echo", args: { value: 1 } };
  const b = yield { tool: "read", args: { path: "p" + a.value } };
  return b.length;
}
const g = plan();
let step = g.next();
while (!step.done) step = g.next(await mcp.rec[step.value.tool](step.value.args));
return step.value;
