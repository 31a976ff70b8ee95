// constructs: reduce with await
const sum = await [1, 2, 3].reduce(async (acc, n) => (await acc) + (await mcp.rec.echo({ value: n })).value, 0);
return sum;
