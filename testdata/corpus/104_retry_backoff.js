// constructs: retry with a sleep, failures
let tries = 0;
async function flaky() {
  const { count } = await mcp.rec.inc({ key: "flaky" });
  if (count < 3) return mcp.rec.fail({ message: "try " + count });
  return count;
}
for (;;) {
  try {
    return [await flaky(), tries];
  } catch (e) {
    tries++;
    await new Promise((ok) => setTimeout(ok, 2));
  }
}
