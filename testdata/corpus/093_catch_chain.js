// constructs: promise chain with catch and finally
const log = [];
const v = await mcp.rec.fail({ message: "c" })
  .then(() => log.push("never"))
  .catch((e) => { log.push(e.message); return mcp.rec.echo({ value: "recovered" }); })
  .finally(() => { log.push("finally"); })
  .then((r) => r.value);
return [v, log];
