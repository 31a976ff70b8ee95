// constructs: computed tool and server names
const out = [];
for (const [s, t, a] of [["rec", "echo", { value: 1 }], ["my-rec", "read", { path: "q" }], ["rec", "list", { n: 2 }]]) {
  out.push(await mcp[s][t](a));
}
return out;
