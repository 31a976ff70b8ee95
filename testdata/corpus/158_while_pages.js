// constructs: paging until empty, result decides the next argument
let cursor = 3;
const seen = [];
while (cursor > 0) {
  const page = await mcp.rec.list({ n: cursor });
  seen.push(page.length);
  cursor = (await mcp.rec.echo({ value: cursor - 1 })).value;
}
return seen;
