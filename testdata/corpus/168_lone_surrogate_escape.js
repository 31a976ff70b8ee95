// constructs: escapes for text outside the BMP
const r = await mcp.rec.echo({ value: "\u{1F600}\x41" });
return [r.value.length, r.value.endsWith("A")];
