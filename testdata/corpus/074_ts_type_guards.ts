// constructs: type guards, unions, assertion functions
type Shape = { kind: "sq"; a: number } | { kind: "rect"; a: number; b: number };
const isRect = (s: Shape): s is Extract<Shape, { kind: "rect" }> => s.kind === "rect";
function must(x: unknown): asserts x { if (!x) throw new Error("must"); }
const s: Shape = (await mcp.rec.echo({ value: { kind: "rect", a: 2, b: 3 } })).value;
must(isRect(s));
return isRect(s) ? s.a * s.b : s.a;
