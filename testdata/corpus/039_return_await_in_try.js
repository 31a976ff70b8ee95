// constructs: return without await in try is not caught there
async function f() {
  try {
    return mcp.rec.fail({ message: "late" });
  } catch (e) {
    return "caught inside";
  }
}
return await f().catch((e) => "caught outside: " + e.message);
