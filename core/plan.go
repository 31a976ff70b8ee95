package core

import "encoding/json"

// Plan is what analysis predicts of a program: it serves gates, screens and
// speed. Meaning comes from running the program.
type Plan struct {
	Kind   Kind       `json:"kind"`
	Calls  []PlanCall `json:"calls"`
	Edges  []PlanEdge `json:"edges"`
	Layers [][]string `json:"layers"` // call ids by predicted layer
	Tools  []string   `json:"tools"`  // distinct, sorted
	// Unknown says what cannot be known before running.
	Unknown []PlanNote `json:"unknown,omitempty"`
	// Gates names what calls would meet that are not among Calls, where Unknown says that
	// there may be some; filled in by whoever knows the workspace.
	Gates []PlanGate `json:"gates,omitempty"`
	// Warnings are mistakes that do not stop the program.
	Warnings []PlanNote `json:"warnings,omitempty"`
}

// PlanCall is one call site of a script or one task of a DAG.
type PlanCall struct {
	ID   string `json:"id"`
	Tool string `json:"tool"` // server:tool; a part that is not known is "*"
	// At is the place of the call in the user's source, Site the same call in
	// the stripped script that runs.
	At    Position `json:"at,omitzero"`
	Site  Position `json:"site,omitzero"`
	Layer int      `json:"layer_index"`
	// Arguments is set when analysis knows them completely.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Known are the short texts among the arguments that analysis knows where it does
	// not know all of them: they name the run, and nothing is decided by them.
	Known map[string]string `json:"known_arguments,omitempty"`
	// Computed are the arguments that the script computes, of a call whose others analysis
	// knows.
	Computed []string `json:"computed_arguments,omitempty"`
	// Conditional calls may not happen; repeated ones happen any number of times.
	Conditional bool `json:"conditional,omitempty"`
	Repeated    bool `json:"repeated,omitempty"`
	// Gates names what would stop the call now; filled in by whoever knows the
	// workspace.
	Gates []PlanGate `json:"gates,omitempty"`
}

// PlanGate is a gate that a planned call meets.
type PlanGate struct {
	Type    ApprovalType `json:"approval_type,omitempty"` // empty: denied
	Message string       `json:"message"`
}

// EdgeKind says why one call comes after another.
type EdgeKind string

// The kinds of edge.
const (
	EdgeData    EdgeKind = "data"    // uses its result
	EdgeControl EdgeKind = "control" // happens or not by its result
	EdgeOrder   EdgeKind = "order"   // merely awaited before
)

// PlanEdge says that To comes after From.
type PlanEdge struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	Kind EdgeKind `json:"kind"`
}

// PlanNote is a remark about a place in the source.
type PlanNote struct {
	Message string   `json:"message"`
	At      Position `json:"at,omitzero"`
	CallID  string   `json:"call_id,omitempty"`
}
