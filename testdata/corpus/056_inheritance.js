// constructs: inheritance, super in async methods
class A { async hi(n) { return (await mcp.rec.echo({ value: "A" + n })).value; } }
class B extends A { async hi(n) { return (await super.hi(n)) + (await mcp.rec.echo({ value: "B" + n })).value; } }
return await new B().hi(1);
