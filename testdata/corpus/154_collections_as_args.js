// constructs: Map, Set and typed arrays as arguments
const r = await mcp.rec.echo({ value: [new Map([[1, 2]]), new Set([1]), new Uint8Array([1, 2])] });
return r.value;
