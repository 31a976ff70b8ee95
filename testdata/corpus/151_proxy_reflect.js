// constructs: Proxy and Reflect around the tools
const calls = [];
const spy = new Proxy(mcp.rec, { get: (t, k) => (a) => { calls.push(String(k)); return Reflect.get(t, k)(a); } });
const r = await spy.echo({ value: "via proxy" });
return [r.value, calls];
