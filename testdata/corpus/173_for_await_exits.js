// constructs: for await left by break, return, throw, labelled break and continue; the iterator's return() is awaited
const log = [];
const close = async (name) => {
  log.push(name + ": closing");
  await mcp.rec.write({ path: name, content: "closed" });
  log.push(name + ": closed");
};
const source = (name) => ({
  [Symbol.asyncIterator]() {
    let i = 0;
    return {
      async next() { return { value: i++, done: i > 4 }; },
      async return() { await close(name); return { done: true }; },
    };
  },
});
async function* generator(name) {
  try { for (let i = 0; i < 4; i++) yield i; } finally { await close(name); }
}
for (const [kind, make] of [["iterator", source], ["generator", generator]]) {
  for await (const x of make(kind + " break")) if (x === 1) break;
  log.push("after break");
  const r = await (async () => { for await (const x of make(kind + " return")) if (x === 1) return "returned " + x; })();
  log.push("after " + r);
  try {
    for await (const x of make(kind + " throw")) if (x === 1) throw new Error("thrown " + x);
  } catch (e) { log.push("caught " + e.message); }
  outer: for (const y of [1, 2, 3]) {
    for await (const x of make(kind + " labelled " + y)) {
      if (y === 3) break outer;
      if (x === 1) continue outer;
    }
  }
  log.push("after labelled");
  a: for await (const x of make(kind + " own label")) { while (true) { if (x < 2) continue a; break a; } }
  log.push("after own label");
  for await (const x of make(kind + " to the end")) log.push(x);
}
return log;
