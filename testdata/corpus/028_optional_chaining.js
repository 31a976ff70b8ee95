// constructs: optional chaining over results
const r = (await mcp.rec.echo({ value: { a: { b: [1, 2] } } })).value;
const x = r?.a?.b?.[1];
const y = r?.no?.such?.thing ?? "none";
const f = r.fn?.();
return [x, y, f === undefined];
