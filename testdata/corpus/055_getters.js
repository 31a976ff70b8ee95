// constructs: getters and setters around calls
class Box {
  set value(v) { this.p = mcp.rec.put({ key: "box", value: v }); }
  get value() { return this.p.then((r) => r.value); }
}
const b = new Box();
b.value = 41;
return (await b.value) + 1;
