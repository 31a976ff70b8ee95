// constructs: for await over an array of promises
// order: partial
const out = [];
for await (const r of [mcp.rec.echo({ value: 1 }), mcp.rec.echo({ value: 2 }), 3]) {
  out.push(typeof r === "number" ? r : r.value);
}
return out;
