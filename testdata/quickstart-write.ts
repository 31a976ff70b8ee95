// A write asks first. From the repository root:
//
//	go run ./cmd/pml execute testdata/quickstart-write.ts     stops: approval_required, exit 8
//	go run ./cmd/pml continue ID --approve                    writes the file and prints the result
//
// The two reads run before the stop and are not repeated after the approval.

const [mod, sum] = await Promise.all([
  mcp.workspace.stat({ path: "go.mod" }),
  mcp.workspace.stat({ path: "go.sum" }),
]);

const text = `go.mod has ${mod.size} bytes, go.sum has ${sum.size}.\n`;
await mcp.workspace.write_file({ path: "pml-quickstart.txt", content: text });
return text.trim();
