// A write stops for a decision. The search before it runs once: after the approval its result comes
// from the journal.
//
//	pml execute write-index.ts              exits with 8 and says what it wants to write
//	pml continue @latest --approve          writes it
//
// asks: tool_permission

const { matches } = await mcp.workspace.search({ query: "TODO: [^.]*", regexp: true, glob: "notes/*.md" });
const lines = matches.map((m: { path: string; line: number; text: string }) => `- ${m.path}:${m.line} ${m.text.trim()}`);
await mcp.workspace.write_file({ path: "out/todo.md", content: lines.join("\n") + "\n" });
return `${lines.length} lines in out/todo.md`;
