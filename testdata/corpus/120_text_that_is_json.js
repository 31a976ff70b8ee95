// constructs: single texts that parse as JSON scalars
const out = [];
for (const s of ["42", "true", "null", "\"q\"", " [1] ", "4 2", ""]) out.push(await mcp.rec.texts({ texts: [s] }));
return out;
