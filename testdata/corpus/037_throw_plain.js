// constructs: uncaught throw of an Error
// throws: too small
const r = await mcp.rec.list({ n: 2 });
if (r.length < 3) throw new RangeError("too small");
return r;
