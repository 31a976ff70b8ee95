// constructs: for await inside a loop, left by throw and by break in turn; an iterator that cannot be had; errors of return()
// order: partial
const log = [];
async function* numbers(name) {
  try { yield 1; yield 2; } finally { await mcp.rec.echo({ value: name }); }
}
const failing = { [Symbol.asyncIterator]: () => ({ next: async () => ({ value: 1, done: false }), return: async () => { await mcp.rec.echo({ value: "closing" }); throw new Error("cannot close"); } }) };
for (let i = 0; i < 4; i++) {
  try {
    for await (const x of numbers("round " + i)) {
      if (i % 2 === 0) throw new Error("round " + i);
      break;
    }
    log.push("ended " + i);
  } catch (e) { log.push("caught " + e.message); }
}
for (const it of [numbers("one"), null, numbers("two"), undefined]) {
  try { for await (const x of it) break; log.push("closed"); } catch (e) { log.push(e.name); }
}
try { for await (const x of failing) break; } catch (e) { log.push("break: " + e.message); }
try { for await (const x of failing) throw new Error("mine"); } catch (e) { log.push("throw: " + e.message); }
async function* inner() { for await (const x of numbers("delegated")) yield x * 10; }
for await (const x of inner()) { log.push(x); break; }
for await (const x of [mcp.rec.echo({ value: "in an array" }), 7]) log.push(x.value ?? x);
const tasks = [1, 2].map(async (n) => { for await (const x of numbers("task")) { if (n === 1) return x; } return "all"; });
for (const t of tasks) log.push(await t);
return log;
