// constructs: toJSON in arguments and result
class Money { constructor(c) { this.c = c; } toJSON() { return { cents: this.c }; } }
const r = await mcp.rec.echo({ value: new Money(150) });
return { m: new Money(r.value.cents * 2) };
