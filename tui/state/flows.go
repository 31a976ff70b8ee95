package state

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// FlowFile names a flow by its place: two may have the same id.
type FlowFile struct {
	Home bool   // in the folder of the home
	Name string // of its file, within its folder
}

// Flows are the hook flows as they were read last, and what they did.
type Flows struct {
	Home, Workspace *flow.Folder // nil: there is none
	// Dir is the workspace's, Trusted is set when this machine trusts its files.
	Dir     string
	Trusted bool
	// Runs are the flow runs that are kept, newest first.
	Runs map[core.FlowKey][]core.FlowRun
}

// FlowCall is a call to try a flow on. Result is an MCP CallToolResult; empty: the trial
// ends before the call.
type FlowCall struct {
	Tool         string // server:tool; the server for a flow about lists
	Args, Result json.RawMessage
}

// FlowTried is what a flow would have made of a call that was not made.
type FlowTried struct {
	Matches bool
	Run     core.FlowRun
	Args    json.RawMessage // those that would be sent
	Asks    []core.FlowAsk
	Result  json.RawMessage // what would be left of the result
	Refused string          // why the call would be refused; empty: it would not
	List    json.RawMessage // what the server lists, of a flow about lists; Result is what is left
}
