// constructs: then with two handlers
const show = (p) => p.then((r) => "ok " + r.value, (e) => "err " + e.message);
return [await show(mcp.rec.echo({ value: 1 })), await show(mcp.rec.fail({ message: "two" }))];
