// constructs: getters and prototypes in arguments
class P { own = 1; get computed() { return 2; } }
const o = Object.create({ inherited: 1 }, { shown: { enumerable: true, get: () => 3 }, hidden: { value: 4 } });
return [(await mcp.rec.echo({ value: new P() })).value, (await mcp.rec.echo({ value: o })).value];
