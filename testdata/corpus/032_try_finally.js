// constructs: try/finally with calls
const log = [];
try {
  log.push((await mcp.rec.echo({ value: "try" })).value);
} finally {
  log.push((await mcp.rec.echo({ value: "finally" })).value);
}
return log;
