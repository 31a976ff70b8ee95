// constructs: error inside for await, generator cleaned up
const log = [];
async function* gen() {
  try { yield await mcp.rec.echo({ value: 1 }); yield await mcp.rec.fail({ message: "mid" }); yield "never"; }
  finally { log.push("closed"); }
}
try { for await (const x of gen()) log.push(x.value); } catch (e) { log.push(e.message); }
return log;
