// Package agent is the conversation of an agent with its model: what the model is
// asked next, given what it has answered and what the runs that it asked for came to.
// It calls nothing and knows no clock: the same answers lead to the same requests, so
// that an agent can be taken up from its journal.
package agent

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/model"
)

// Execute is the one tool that an agent offers to its model.
var Execute = model.Tool{
	Name: "pml_execute",
	Description: "Does what you intend. With code it runs that: a script of JavaScript or TypeScript that may call tools of MCP servers as mcp.server.tool({...}). Each call returns a promise. " +
		"Independent calls belong into one Promise.all. What the script returns is the result, so let it filter and shorten there. Of a large one you see the beginning and a handle such as h1; a later script has it whole as results.h1. A person may have to approve a call: the tool then answers later, with the result or with the refusal. " +
		"Without code, pml looks for tools that fit the intent: where it says all that they need, pml calls them; otherwise you are shown those that fit best, and give code. So name files and values in it.",
	Schema: json.RawMessage(`{"type":"object","properties":{"intent":{"type":"string","description":"what it is for, in a few words that a person reads"},"code":{"type":"string","description":"the script; left out where the intent says all"}},"required":["intent"],"additionalProperties":false}`),
}

// Run is a run that the agent wants to have done.
type Run struct {
	Call   string // the id of the call, unique in the agent's run
	Intent string
	Code   string // empty: what the intent says
	// Results are the runs whose large results the script names, by handle.
	Results map[string]core.ID
	// Budget is what it may spend; its Calls bound its own calls, too.
	Budget core.AgentBudget
}

// Outcome is what a run came to.
type Outcome struct {
	ID     core.ID         `json:"workflow_id"`
	Result json.RawMessage `json:"result,omitempty"`
	// Tools are those that fit an intent, as a model reads them, where it did not say all
	// that they need: nothing was run.
	Tools string `json:"tools,omitempty"`
	// Calls counts the tool calls that it made.
	Calls int `json:"calls"`
	// Usage is what agents have used that it started.
	Usage core.AgentUsage `json:"usage,omitzero"`
	// Denied are the calls that somebody was asked about and has refused, each by its tool
	// and the digest of its arguments, as often as it was refused.
	Denied []string `json:"denied,omitempty"`
	// Err is why it failed, or was not run.
	Err *core.Error `json:"-"`
}

// Step is what happens next: a request to the model, runs, or the end.
type Step struct {
	// Ask is what the model is asked; Call is the id of that call.
	Ask  *model.Request
	Call string
	// Question is what a person is asked before the model is, nil for nothing.
	Question *Question
	Runs     []Run
	// Done is set at the end, with one of Result and Err.
	Done   bool
	Result *core.AgentResult
	Err    *core.Error
}

// Question asks a person whether an agent that has used most of its budget may use as much
// again. A no ends the agent (Loop.Stopped).
type Question struct {
	Iterations int              `json:"iterations"`
	Calls      int              `json:"calls"`
	Usage      core.AgentUsage  `json:"usage"`
	Budget     core.AgentBudget `json:"budget"`
	// More is what a yes adds.
	More core.AgentMore `json:"more"`
}
