// constructs: clearTimeout
const out = [];
const id = setTimeout(() => out.push("never"), 5);
clearTimeout(id);
await new Promise((ok) => setTimeout(ok, 20));
await mcp.rec.echo({ value: out.length });
return out;
