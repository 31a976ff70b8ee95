// constructs: un-awaited siblings of a caught Promise.all go on
// order: partial
try {
  await Promise.all([
    mcp.rec.fail({ message: "no" }),
    mcp.rec.echo({ value: "sibling" }).then((v) => mcp.rec.write({ path: "sibling", content: v.value })),
  ]);
} catch (e) { return "caught " + e.code; }
