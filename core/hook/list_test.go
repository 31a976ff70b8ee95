package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// A flow of tools/list hides tools, changes what they say of themselves, and promises
// nothing for them.
func TestRunner_List(t *testing.T) {
	t.Parallel()
	yes := true
	tools := []core.Tool{
		{Server: "files", Name: "read", Description: "Reads", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: core.Annotations{ReadOnly: &yes}, Rest: json.RawMessage(`{"icons":[]}`)},
		{Server: "files", Name: "write", Description: "Writes"},
	}
	const each = `return {response: {tools: context.response.tools.map(t => `
	for name, tt := range map[string]struct {
		before, after string
		want          string // names, descriptions and hints
		says          string
	}{
		"Same":        {after: `return`, want: "read Reads readonly, write Writes"},
		"Hide":        {after: `return {response: {tools: context.response.tools.filter(t => t.name !== "write")}}`, want: "read Reads readonly"},
		"HideAll":     {after: `return {response: {tools: []}}`, want: ""},
		"Describe":    {after: each + `({...t, description: "Team: " + t.description}))}}`, want: "read Team: Reads readonly, write Team: Writes"},
		"Short":       {after: `return {response: {tools: [{name: "read", description: "x"}]}}`, want: "read x readonly"},
		"Stricter":    {after: each + `({...t, annotations: {readOnlyHint: false, destructiveHint: true}}))}}`, want: "read Reads destructive, write Writes destructive"},
		"ReadOnly":    {after: each + `({...t, annotations: {readOnlyHint: true}}))}}`, says: "stricter"},
		"Harmless":    {after: each + `({...t, annotations: {destructiveHint: false}}))}}`, says: "stricter"},
		"Add":         {after: `return {response: {tools: [{name: "delete"}]}}`, says: "no tool delete"},
		"Twice":       {after: `return {response: {tools: [{name: "read"}, {name: "read"}]}}`, says: "twice"},
		"Schema":      {after: each + `({...t, inputSchema: {}}))}}`, says: "input schema"},
		"Member":      {after: each + `({...t, _meta: {}}))}}`, says: "must be {tools"},
		"Nonsense":    {after: `return {response: {content: []}}`, says: "must be {tools"},
		"Null":        {after: `return {response: {tools: null}}`, says: "must be {tools"},
		"Throws":      {after: `throw new Error("broken")`, says: "broken"},
		"Block":       {before: `return {block: {message: "not for you"}}`, says: "not for you"},
		"Params":      {before: `return {params: {arguments: {}}}`, says: "no parameters"},
		"Given":       {before: `return {response: {tools: [{name: "write", description: "only this"}]}}`, want: "write only this"},
		"ContextSeen": {after: `if (context.request.method !== "tools/list" || context.metadata.serverName !== "files" || context.metadata.toolName !== "") throw 1`, want: "read Reads readonly, write Writes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []node
			if tt.before != "" {
				nodes = append(nodes, script("x", tt.before, false))
			}
			if tt.after != "" {
				nodes = append(nodes, script("y", tt.after, true))
			}
			set := setOf(t, line("f", `"workflowType":"tools/list"`, nodes...))
			got, err := newRig(t).List(context.Background(), set, flow.Request{Tool: "files", Workspace: "/work"}, tools)
			if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || core.AsError(err).Made || got != nil) {
				t.Fatalf("%v %v", got, err)
			}
			var lines []string
			for _, tool := range got {
				l := tool.Name + " " + tool.Description
				if tool.Annotations.IsReadOnly() {
					l += " readonly"
				}
				if tool.Annotations.Destructive != nil {
					l += " destructive"
				}
				if tool.Name == "read" && (string(tool.Rest) != `{"icons":[]}` || tool.InputSchema == nil) {
					t.Error("the rest of the tool is lost")
				}
				lines = append(lines, l)
			}
			if strings.Join(lines, ", ") != tt.want {
				t.Errorf("%q, want %q", lines, tt.want)
			}
		})
	}
}
