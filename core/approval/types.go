package approval

import (
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Type describes a type of approval: what every place that lists, names or treats
// types alike has to know of it.
type Type struct {
	Type     core.ApprovalType
	Label    string // on a screen
	Words    string // in a sentence
	Question string // what a card asks
	// Single: one is approved by itself, never all of the type at once.
	Single bool
	// Machine: it is about what a machine runs and is trusted with. On a server the
	// person there decides it, not the owner of an API key.
	Machine bool
	// PerCall: a yes is about the call that asked. A yes to any other type is carried
	// out first, and the call is checked again.
	PerCall bool
	// Person: a person decides it, whatever approvals.decider says.
	Person bool
}

// Types are all there are.
var Types = []Type{
	{Type: core.ApproveDependency, Label: "dependency", Words: "install a server", Question: "Install a dependency?", Machine: true},
	{Type: core.ApproveKeys, Label: "api key", Words: "missing key", Question: "Are the keys there?"},
	{Type: core.ApproveIntegrity, Label: "integrity", Words: "integrity", Question: "Approve integrity change?", Single: true, Machine: true},
	{Type: core.ApproveTool, Label: "tool perm", Words: "tool permission", Question: "Approve tool permission?", PerCall: true},
	{Type: core.ApproveOAuth, Label: "oauth", Words: "sign in", Question: "Connect a server?", Machine: true},
	{Type: core.ApproveLayer, Label: "layer", Words: "next layer", Question: "Start the next layer?"},
	{Type: core.ApproveInDoubt, Label: "in doubt", Words: "call in doubt", Question: "It may have run: what now?", PerCall: true},
	{Type: core.ApproveHook, Label: "hook", Words: "hook", Question: "Let the flow go on?", PerCall: true},
	{Type: core.ApproveBudget, Label: "budget", Words: "more budget", Question: "May the agent use as much again?", Single: true, PerCall: true},
	{Type: core.ApproveHost, Label: "host", Words: "permission in a host", Question: "May the agent's host do this?", PerCall: true, Person: true},
}

// QuestionOf is what a card asks: that of the type, but where nothing has changed and a
// person is asked to believe what a server says of its tools.
func QuestionOf(a core.Approval) string {
	var c struct {
		Kind string `json:"kind"`
	}
	if a.Type == core.ApproveIntegrity && json.Unmarshal(a.Context, &c) == nil && c.Kind == "readonly" {
		return "Do its tools only read?"
	}
	return TypeOf(a.Type).Question
}

// TypeOf describes a type. One that this pml does not know, because a newer one has
// opened the approval, is called by its name and treated with the most care: a person at
// the machine decides each by itself.
func TypeOf(t core.ApprovalType) Type {
	if i := slices.IndexFunc(Types, func(one Type) bool { return one.Type == t }); i >= 0 {
		return Types[i]
	}
	name := core.Visible(string(t), 20, false)
	return Type{Type: t, Label: name, Words: name, Question: "Approve " + name + "?", Single: true, Machine: true}
}
