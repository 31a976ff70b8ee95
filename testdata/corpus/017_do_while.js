// constructs: do…while with await
let r;
let rounds = 0;
do {
  r = await mcp.rec.inc({ key: "d" });
  rounds++;
} while (r.count < 4);
return { rounds, count: r.count };
