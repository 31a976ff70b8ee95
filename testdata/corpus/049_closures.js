// constructs: closures over results
function counter(key) {
  let last = 0;
  return async () => (last = (await mcp.rec.inc({ key })).count + last);
}
const a = counter("a"), b = counter("b");
return [await a(), await b(), await a(), await a(), await b()];
