// constructs: a rejection handled by an empty catch
// order: partial
mcp.rec.fail({ message: "ignored" }).catch(() => {});
return (await mcp.rec.echo({ value: "fine" })).value;
