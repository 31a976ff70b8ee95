// constructs: un-awaited main with catch, the form that agents write most
async function main() {
  const a = await mcp.rec.echo({ value: "first" });
  await mcp.rec.write({ path: "a", content: a.value });
  setTimeout(async () => { await mcp.rec.write({ path: "late", content: "after a timer" }); console.log("all done"); }, 5);
}
main().catch(console.error);
