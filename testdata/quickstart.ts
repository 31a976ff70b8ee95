// Quick start: a summary of this repository, made with pml's built-in workspace server.
// From the repository root:
//
//	go run ./cmd/pml execute testdata/quickstart.ts
//
// The folders of a level are listed in parallel, then all files but the tests are read in parallel.

interface Entry { name: string; type: string }
interface Source { path: string; lines: number }

const skipped = new Set(["testdata", "node_modules", "docs"]);

async function goFiles(path: string): Promise<string[]> {
  const { entries }: { entries: Entry[] } = await mcp.workspace.list_directory({ path });
  const at = (e: Entry) => (path === "." ? e.name : `${path}/${e.name}`);
  const folders = entries.filter((e) => e.type === "directory" && !e.name.startsWith(".") && !skipped.has(e.name));
  const below = await Promise.all(folders.map((e) => goFiles(at(e))));
  return entries.filter((e) => e.name.endsWith(".go")).map(at).concat(...below);
}

const all = await goFiles(".");
const isTest = (path: string) => path.endsWith("_test.go");
const paths = all.filter((path) => !isTest(path));
const sources: Source[] = await Promise.all(
  paths.map(async (path) => {
    const { content } = await mcp.workspace.read_file({ path });
    return { path, lines: content.split("\n").length - 1 };
  }),
);

const packages: Record<string, { files: number; lines: number; tests: number }> = {};
const packageOf = (path: string) => {
  const name = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : ".";
  return (packages[name] ??= { files: 0, lines: 0, tests: 0 });
};
for (const { path, lines } of sources) {
  const p = packageOf(path);
  p.files++;
  p.lines += lines;
}
for (const path of all.filter(isTest)) packageOf(path).tests++;

const [mod, tests] = await Promise.all([
  mcp.workspace.read_file({ path: "go.mod" }),
  mcp.workspace.search({ query: "func Test", glob: "*_test.go" }),
]);
const largest = [...sources].sort((a, b) => b.lines - a.lines || (a.path < b.path ? -1 : 1)).slice(0, 5);
const bySize = Object.entries(packages).sort(([, a], [, b]) => b.lines - a.lines);
console.log(`read ${sources.length} Go files`);
return {
  module: mod.content.match(/^module (\S+)/m)?.[1],
  go_files: all.length,
  lines: sources.reduce((sum, s) => sum + s.lines, 0),
  test_functions: tests.truncated ? `more than ${tests.matches.length}` : tests.matches.length,
  packages: Object.keys(packages).length,
  largest_packages: bySize.slice(0, 5).map(([name, p]) => `${name} (${p.lines} lines in ${p.files} files, ${p.tests} test files)`),
  largest_files: largest.map((s) => `${s.path} (${s.lines} lines)`),
};
