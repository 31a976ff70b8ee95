// Reads all notes at once: the calls of a Promise.all are one layer and run in parallel.
//
//	pml execute count-words.ts

const { paths } = await mcp.workspace.find({ pattern: "notes/*.md" });
const files = await Promise.all(paths.map((path: string) => mcp.workspace.read_file({ path })));
return Object.fromEntries(files.map((f) => [f.path, f.content.split(/\s+/).filter(Boolean).length]));
