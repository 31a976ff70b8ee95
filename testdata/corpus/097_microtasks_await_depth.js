// constructs: microtask order, await of different depth decides the order of calls
// order: partial
const late = async () => { await null; await null; await null; return mcp.rec.echo({ value: "late" }); };
const soon = async () => { await null; return mcp.rec.echo({ value: "soon" }); };
const mid = async () => { await Promise.resolve(Promise.resolve(1)); await 0; return mcp.rec.echo({ value: "mid" }); };
return (await Promise.all([late(), soon(), mid()])).map((r) => r.value);
