// constructs: while with await, inc
let n = 0;
while (n < 3) {
  n = (await mcp.rec.inc({ key: "w" })).count;
}
return n;
