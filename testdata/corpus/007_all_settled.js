// constructs: Promise.allSettled, tool failure
// order: partial
const rs = await Promise.allSettled([
  mcp.rec.echo({ value: "ok" }),
  mcp.rec.fail({ message: "no" }),
  mcp.rec.read({ path: "missing" }),
]);
return rs.map((r) => (r.status === "fulfilled" ? r.value.value : r.reason.message));
