// constructs: un-awaited forEach with an async function
// order: partial
["x", "y"].forEach(async (name) => {
  const v = await mcp.rec.echo({ value: name });
  if (name === "x") await mcp.rec.write({ path: name, content: v.value });
});
return "over";
