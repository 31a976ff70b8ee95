// constructs: filter, sort, flatMap over results
const xs = await mcp.rec.list({ n: 6 });
const ys = xs.filter((x) => x % 2 === 0).sort((a, b) => b - a).flatMap((x) => [x, -x]);
return [(await mcp.rec.echo({ value: ys })).value, ys.at(-1), ys.findLast((y) => y > 0)];
