// constructs: labelled break and continue
const out = [];
outer: for (let i = 0; i < 3; i++) {
  for (let j = 0; j < 3; j++) {
    if (j === 1 && i === 0) continue outer;
    if (i === 2) break outer;
    out.push((await mcp.rec.echo({ value: [i, j] })).value);
  }
}
return out;
