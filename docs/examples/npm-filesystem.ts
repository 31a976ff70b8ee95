// A server from npm. The first run asks whether the package may be installed, and the second question
// lists the tools that claim to only read.
//
//	pml execute npm-filesystem.ts
//	pml continue @latest --approve          twice
//
// asks: dependency, integrity

const [one, tree] = await Promise.all([
  mcp.filesystem.read_text_file({ path: "notes/cellar.md" }),
  mcp.filesystem.directory_tree({ path: "notes" }),
]);
return { cellar: one, tree };
