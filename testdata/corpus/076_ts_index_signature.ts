// constructs: index signatures, tuples, readonly, optional
const m: { [k: string]: [number, string?] } = {};
const xs: readonly number[] = await mcp.rec.list({ n: 3 });
for (const x of xs) m["k" + x] = x % 2 ? [x] : [x, (await mcp.rec.echo({ value: "even" })).value];
return m;
