// Three calls of one server at once, one of them slow and with progress.
//
//	pml execute npm-everything.ts
//	pml continue @latest --approve          until it is done
//
// asks: dependency, integrity

const [said, sum, slow] = await Promise.all([
  mcp.everything.echo({ message: "hello" }),
  mcp.everything["get-sum"]({ a: 2, b: 40 }),
  mcp.everything["trigger-long-running-operation"]({ duration: 1, steps: 4 }),
]);
return { said, sum, slow };
