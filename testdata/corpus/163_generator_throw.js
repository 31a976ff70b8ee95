// constructs: generator as a coroutine, generator.throw with a tool error
function* steps() {
  try {
    yield mcp.rec.fail({ message: "thrown in" });
  } catch (e) {
    return (yield mcp.rec.echo({ value: e.message })).value;
  }
}
const g = steps();
let s = g.next();
while (!s.done) {
  let r, failed;
  try { r = await s.value; } catch (e) { failed = e; }
  s = failed ? g.throw(failed) : g.next(r);
}
return s.value;
