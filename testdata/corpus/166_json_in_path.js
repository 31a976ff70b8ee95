// constructs: quotes, newlines and control characters in arguments
const nasty = "a\"b\\c\nd\te\u0000f\u001fg\u2028h";
const r = await mcp.rec.echo({ value: { [nasty]: nasty } });
return r.value[nasty] === nasty;
