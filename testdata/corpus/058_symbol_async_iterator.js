// constructs: Symbol.asyncIterator by hand
const source = {
  [Symbol.asyncIterator]() {
    let i = 0;
    return {
      next: async () => i < 3 ? { value: (await mcp.rec.echo({ value: i++ })).value, done: false } : { value: undefined, done: true },
      return: async () => ({ done: true }),
    };
  },
};
const out = [];
for await (const v of source) out.push(v);
return out;
