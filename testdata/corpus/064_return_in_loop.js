// constructs: return in a loop
for (const p of ["missing", "b", "c"]) {
  try {
    return [p, await mcp.rec.read({ path: p })];
  } catch {
    await mcp.rec.echo({ value: "skip " + p });
  }
}
