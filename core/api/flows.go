package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// FlowReads are the hook flows of the home and of the workspace, and what they did. A name
// is the id, the file or the name of a flow; those of the workspace are looked at first.
type FlowReads interface {
	// Flows lists them as they run: those of the home first. Of each it leaves Text and
	// Files away.
	Flows(ctx context.Context) ([]Flow, error)
	// Flow is one flow. There is none: core.CodeNotFound.
	Flow(ctx context.Context, name string) (Flow, error)
	// FlowHistory is what a flow did, the newest runs first.
	FlowHistory(ctx context.Context, name string, limit int) (FlowHistory, error)
}

// Flows are hook flows as the machine that has their files changes and tries them.
type Flows interface {
	FlowReads
	// SaveFlow writes a file of a folder of flows, or removes it. A flow that is enabled
	// and has faults is core.CodeInvalidConfig with all of them.
	SaveFlow(ctx context.Context, f FlowFile) error
	// TryFlowOn runs a flow on a call that is not made; one of tools/list on what the server
	// lists that call.Tool names, which is the Result of the trial.
	TryFlowOn(ctx context.Context, name string, call FlowCall) (FlowTrial, error)
	// TryFlowSince runs a flow on the calls that runs of the workspace have made since a
	// time, and that it would look at.
	TryFlowSince(ctx context.Context, name string, since time.Time) (FlowReplay, error)
	// TryFlowOnRun runs a flow on the calls of one run that it would look at.
	TryFlowOnRun(ctx context.Context, name string, run core.ID) (FlowReplay, error)
}

// Flow is a hook flow.
type Flow struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type"` // tools/call or tools/list
	File        string          `json:"file"`
	Home        bool            `json:"home,omitempty"`
	Enabled     bool            `json:"enabled"`
	Mode        string          `json:"mode"`  // enforce or audit
	State       string          `json:"state"` // on, audit, off, faults, or not trusted
	Priority    int             `json:"priority,omitempty"`
	Match       json.RawMessage `json:"match,omitempty"`
	Digest      string          `json:"digest"`
	Faults      []core.Fault    `json:"faults,omitempty"`
	Nodes       []FlowNode      `json:"nodes,omitempty"`
	Edges       []FlowEdge      `json:"edges,omitempty"`
	// Text is its file, Files the modules and manifests that it uses, by their paths.
	Text  string            `json:"text,omitempty"`
	Files map[string]string `json:"files,omitempty"`
}

// Outline is the flow without the text of its files, which stay on their machine.
func (f Flow) Outline() Flow {
	f.Text, f.Files = "", nil
	return f
}

// FlowNode is a node of a flow.
type FlowNode struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Label  string `json:"label,omitempty"`
	Beside bool   `json:"fire_and_forget,omitempty"`
}

// FlowEdge is an edge of a flow.
type FlowEdge struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Label  string `json:"label,omitempty"`
}

// FlowFile is a file to write in a folder of flows: Text in the place of Was, which is
// nil where there was none. Without Text the file is removed.
type FlowFile struct {
	Home bool
	Name string // its path in the folder
	Text []byte
	Was  []byte
}

// FlowCall is a call to try a flow on; Result is an MCP CallToolResult, if there is one.
type FlowCall struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"arguments,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// FlowTrial is what a flow makes of a call.
type FlowTrial struct {
	FlowCall
	RunID string `json:"workflow_id,omitempty"` // of a call of the past
	// Verdict is blocked, failed, asked, changed or passed.
	Verdict string `json:"verdict"`
	Matches bool   `json:"matches"`
	Reason  string `json:"reason,omitempty"`
	// Unknown says why nothing is known of what the tool does: the flow then treats it as
	// one that may do anything.
	Unknown string             `json:"unknown,omitempty"`
	Sent    json.RawMessage    `json:"sent,omitempty"`
	Given   json.RawMessage    `json:"given,omitempty"` // the result that is left
	Agent   json.RawMessage    `json:"agent,omitempty"` // what an agent gets of it
	Nodes   []core.FlowNodeRun `json:"nodes"`
}

// FlowReplay is what a flow makes of calls of the past: of those since a time, where Trials
// leaves out what passed, or of those of one run.
type FlowReplay struct {
	Since  time.Time       `json:"since,omitzero"`
	RunID  core.ID         `json:"workflow_id,omitempty"`
	Calls  int             `json:"calls"`
	Counts map[string]int  `json:"counts"` // by verdict
	Trials []FlowTrial     `json:"trials"`
	Nodes  []FlowNodeStats `json:"nodes"`
}

// FlowHistory is what a flow did.
type FlowHistory struct {
	Runs  []core.FlowRun  `json:"items"`
	Nodes []FlowNodeStats `json:"nodes"`
}

// FlowNodeStats are the times of a node, in microseconds.
type FlowNodeStats struct {
	Node    string `json:"node"`
	Type    string `json:"type"`
	Count   int    `json:"count"`
	Blocked int    `json:"blocked"`
	Failed  int    `json:"failed"`
	P50     int64  `json:"p50_us"`
	P95     int64  `json:"p95_us"`
	Max     int64  `json:"max_us"`
	Slowest bool   `json:"slowest,omitempty"`
}
