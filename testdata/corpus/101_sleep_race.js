// constructs: time-out by setTimeout and race, a call that goes on
const timeout = (ms) => new Promise((_, no) => setTimeout(() => no(new Error("timed out")), ms));
try {
  await Promise.race([mcp.rec.slow({ ms: 200, value: 1 }), timeout(20)]);
} catch (e) {
  return e.message;
}
