// constructs: try/catch/finally, failure, calls in each
const log = [];
try {
  await mcp.rec.fail({ message: "x" });
} catch (e) {
  log.push((await mcp.rec.echo({ value: "caught " + e.message })).value);
} finally {
  log.push((await mcp.rec.write({ path: "cleanup", content: "1" })).path);
}
return log;
