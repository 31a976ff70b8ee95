// constructs: tagged template with calls
const tag = async (parts, ...vals) =>
  (await mcp.rec.echo({ value: parts.raw.join("|") + vals.join(",") })).value;
return [await tag`a${1}b${2}\n`, await tag`plain`];
