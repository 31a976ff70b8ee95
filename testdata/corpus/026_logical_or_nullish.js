// constructs: || and ??, short circuit
const get = async (v) => (await mcp.rec.echo({ value: v })).value;
const a = (await get("")) || (await get("or"));
const b = (await get(0)) ?? (await get("never"));
const c = (await get(null)) ?? (await get("nullish"));
return [a, b, c];
