// constructs: hyphenated server names
const a = await mcp["my-rec"].echo({ value: "h" });
const b = await mcp["my-rec"]["read"]({ path: "p" });
return [a.value, b];
