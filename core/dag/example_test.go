package dag_test

import (
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core/dag"
)

// A graph is parsed, checked, and asked for the arguments of a task once the tasks that it refers to have results.
func ExampleBuild() {
	doc, err := dag.Parse([]byte(`{"tasks": [
		{"id": "list", "tool": "workspace:list_directory", "arguments": {"path": "."}},
		{"id": "read", "tool": "workspace:read_file", "arguments": {"path": "$list.entries[0].name"}}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	anyTool := func(string) (bool, []string) { return true, nil }
	g, err := dag.Build(doc.Tasks, anyTool)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Layers())
	args, err := g.Resolve("read", func(string) (json.RawMessage, bool) {
		return json.RawMessage(`{"entries": [{"name": "go.mod"}]}`), true
	})
	fmt.Println(string(args), err)
	// Output:
	// [[list] [read]]
	// {"path": "go.mod"} <nil>
}
