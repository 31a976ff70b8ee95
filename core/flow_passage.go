package core

import (
	"encoding/json"
	"time"
)

// Passage is what the enabled hook flows have made of a call before its gates judged
// it. It travels with the call and is journaled with it, so that flows run once per
// call: not again for a retry, an approval, another process or another half.
type Passage struct {
	// Flows are those that matched the call, in the order in which they ran. The halves
	// behind their mcp-call nodes run in reverse order once the call was answered.
	Flows []PassedFlow `json:"flows,omitempty"`
	// Args are the arguments that are judged, shown and sent; empty: those that the
	// program passed.
	Args json.RawMessage `json:"args,omitempty"`
	// Asks are the questions of approval nodes. A call that has one is asked about,
	// whatever rule or memory allows it.
	Asks []FlowAsk `json:"asks,omitempty"`
	// Response is the result that a flow gives in place of the call, which is then not
	// made: an MCP CallToolResult.
	Response json.RawMessage `json:"response,omitempty"`
}

// PassedFlow is a flow whose first half has run for a call.
type PassedFlow struct {
	// Flow is its id, Digest that of its files as they ran.
	Flow   string `json:"flow"`
	Digest string `json:"digest"`
	// Home is set for a flow of the home, which holds for all workspaces.
	Home bool `json:"home,omitempty"`
	// Audit is set for one that decides nothing.
	Audit bool `json:"audit,omitempty"`
	// RunID names the flow run (FlowRun.ID).
	RunID ID `json:"run_id"`
	// Node is the mcp-call node at which the first half ended.
	Node string `json:"node"`
	// Changed is set when this flow changed the arguments.
	Changed bool `json:"changed,omitempty"`
	// Variables are those of the flow run after the first half.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
}

// FlowAsk is the question of an approval node.
type FlowAsk struct {
	Flow    string `json:"flow"`
	Node    string `json:"node"`
	Message string `json:"message,omitempty"`
}

// FlowState is how far a flow run, or one node of it, has got.
type FlowState string

// The states of flow runs and their nodes.
const (
	FlowPending FlowState = "pending" // its call has not been answered yet
	FlowRunning FlowState = "running"
	FlowOK      FlowState = "ok"
	FlowBlocked FlowState = "blocked"
	FlowFailed  FlowState = "failed"
	FlowTimeout FlowState = "timeout"
	FlowSkipped FlowState = "skipped" // a condition led elsewhere, or the flow ended before it
	// FlowDenied and FlowCancelled are of flow runs whose call got no answer after the
	// flow had let it pass: a gate or a person refused it, or it was not made, or not to
	// its end, for another reason.
	FlowDenied    FlowState = "denied"
	FlowCancelled FlowState = "cancelled"
)

// FlowRun is what one flow did with one call. Stores keep the last KeptFlowRuns of
// each flow. Nothing in it holds the value of a key.
type FlowRun struct {
	ID ID `json:"id"`
	// Flow, Name and Digest are those of the flow; Workspace is its folder, empty for a
	// flow of the home.
	Flow      string `json:"flow"`
	Name      string `json:"name"`
	Digest    string `json:"digest"`
	Workspace string `json:"workspace,omitempty"`
	// Audit is set when the flow only recorded what it would have done.
	Audit  bool      `json:"audit,omitempty"`
	Owner  string    `json:"owner,omitempty"`
	RunID  ID        `json:"run_id"` // of the run that made the call
	CallID string    `json:"call_id"`
	Tool   string    `json:"tool"`
	Client string    `json:"client,omitempty"`
	State  FlowState `json:"state"`
	// Node is the one that blocked or failed, Reason what it said, or why the call got no
	// answer.
	Node   string        `json:"node,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Nodes  []FlowNodeRun `json:"nodes"`
	// StartedAt is when the first half began. DurationUS is what both halves took
	// together, in microseconds, without the call itself.
	StartedAt  time.Time `json:"started_at"`
	DurationUS int64     `json:"duration_us"`
}

// KeptFlowRuns is how many runs of each flow a store keeps; the oldest go.
const KeptFlowRuns = 1000

// FlowNodeRun is what one node did.
type FlowNodeRun struct {
	Node string `json:"node"`
	Type string `json:"type"`
	// Response is set for nodes behind the mcp-call node.
	Response   bool        `json:"response,omitempty"`
	State      FlowState   `json:"state"`
	StartedAt  time.Time   `json:"started_at"`
	DurationUS int64       `json:"duration_us"`
	Change     *FlowChange `json:"change,omitempty"`
	Console    []string    `json:"console,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

// FlowChange is what a node changed in the arguments, or in the response. In audit
// mode it is what the node would have changed.
type FlowChange struct {
	// Before and After are digests.
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is for people: lines that begin with "-" or "+".
	Diff string `json:"diff,omitempty"`
}

// FlowKey names a flow: those of different folders may have the same id.
type FlowKey struct {
	Workspace string `json:"workspace,omitempty"` // empty for a flow of the home
	Flow      string `json:"flow"`
}

// Key returns the key of the flow that ran.
func (r FlowRun) Key() FlowKey { return FlowKey{r.Workspace, r.Flow} }

// FlowVariables are what nodes of a flow keep from one run of it to the next.
type FlowVariables struct {
	// Version counts changes; 0: nothing was ever kept.
	Version int64                      `json:"version"`
	Values  map[string]json.RawMessage `json:"values"`
}
