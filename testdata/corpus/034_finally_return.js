// constructs: finally overrides return
async function f() {
  try {
    return await mcp.rec.echo({ value: "try" });
  } finally {
    return (await mcp.rec.echo({ value: "finally wins" })).value;
  }
}
return await f();
