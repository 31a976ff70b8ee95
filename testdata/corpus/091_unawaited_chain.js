// constructs: un-awaited chain that goes on after the return
(async () => {
  const a = await mcp.rec.echo({ value: "bg 1" });
  await mcp.rec.echo({ value: a.value + " then 2" });
})();
return "returned first";
