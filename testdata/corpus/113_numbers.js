// constructs: big, small, negative zero, fractions
const xs = [0, -0, 1e21, 1e-7, 123456789012345680000, 0.1 + 0.2, -1.5e300, 5e-324, 9007199254740991, 1 / 3];
const r = await mcp.rec.echo({ value: xs });
return [r.value, r.value.map(Number.isInteger), Object.is(r.value[1], -0)];
