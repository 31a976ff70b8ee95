// constructs: rethrow, nested try
// throws: outer: inner
try {
  try {
    await mcp.rec.fail({ message: "inner" });
  } catch (e) {
    throw new Error("outer: " + e.message);
  }
} finally {
  await mcp.rec.echo({ value: "still runs" });
}
