// constructs: operators over awaits, order of evaluation
const v = async (x) => (await mcp.rec.echo({ value: x })).value;
const r = (await v(2)) ** (await v(3)) + (await v(10)) % (await v(4)) - ((await v(1)) << (await v(2)));
let s = await v("a");
s += await v("b");
return [r, s];
