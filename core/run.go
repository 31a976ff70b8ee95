package core

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// RunState is the state of a run.
type RunState string

// The states of a run. Complete, failed, aborted and expired are final.
const (
	RunRunning     RunState = "running"
	RunWaiting     RunState = "waiting"
	RunInterrupted RunState = "interrupted"
	RunComplete    RunState = "complete"
	RunFailed      RunState = "failed"
	RunAborted     RunState = "aborted"
	RunExpired     RunState = "expired"
)

// RunStates lists all states in the order in which screens show them.
var RunStates = []RunState{RunRunning, RunWaiting, RunInterrupted, RunComplete, RunFailed, RunAborted, RunExpired}

// runMoves is the one table of transitions between the states of a run.
var runMoves = map[RunState][]RunState{
	RunRunning:     {RunWaiting, RunInterrupted, RunComplete, RunFailed, RunAborted},
	RunWaiting:     {RunRunning, RunInterrupted, RunComplete, RunFailed, RunAborted, RunExpired},
	RunInterrupted: {RunRunning, RunWaiting, RunAborted, RunExpired},
	// A retry takes up a failed run again.
	RunFailed: {RunRunning},
	// So does a person an agent that had used up what it was given.
	RunComplete: {RunRunning},
}

// CanMove reports whether a run may go from one state to another. Staying in a
// state that is not final is always possible.
func CanMove(from, to RunState) bool {
	if from == to {
		return !from.Final()
	}
	return slices.Contains(runMoves[from], to)
}

// Final reports whether the run has ended.
func (s RunState) Final() bool {
	switch s {
	case RunComplete, RunFailed, RunAborted, RunExpired:
		return true
	case RunRunning, RunWaiting, RunInterrupted:
		return false
	}
	return false
}

// Run is the header of a run as stores keep it. Its program and its journal
// are kept beside it.
type Run struct {
	ID        ID     `json:"id"`
	Side      Side   `json:"side"`
	Workspace string `json:"workspace"` // absolute path
	// Owner is whose run it is on a server with several users: the name of an
	// API key's owner. Empty where there is one user.
	Owner string `json:"owner,omitempty"`
	// Remote is set on a server for a run that its client runs and reports
	// (routing): the server never takes it up. Origin is set on such a run at
	// the client: the URL of the server that gets its trace.
	Remote bool     `json:"remote,omitempty"`
	Origin string   `json:"origin,omitempty"`
	Kind   Kind     `json:"kind"`
	State  RunState `json:"state"`
	Intent string   `json:"intent,omitempty"`
	// Name is what people call the run, one line that is safe to show; Title has one
	// for runs of an older pml, too. What it was asked by and from where, its origin,
	// are RequestedBy, Workspace and Owner.
	Name      string     `json:"name,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: never
	// HeldMS is as that of an Approval.
	HeldMS int64 `json:"held_ms,omitempty"`
	// Halted is set while the run waits because calls are halted.
	Halted       *Halt           `json:"halted,omitempty"`
	EndedAt      *time.Time      `json:"ended_at,omitempty"`
	Options      RunOptions      `json:"options"`
	TotalLayers  int             `json:"total_layers"`
	CurrentLayer int             `json:"current_layer"` // the lowest layer that is not complete
	Result       json.RawMessage `json:"result,omitempty"`
	Error        *Error          `json:"error,omitempty"`
	// Dropped are the calls that the end of the run took back: an abort or a
	// failure came first.
	Dropped  []Dropped `json:"dropped,omitempty"`
	ParentID ID        `json:"parent_id,omitempty"`
	// UnderAgent is the first agent above the run, of a run that an agent's tree has
	// begun; empty for others.
	UnderAgent ID `json:"under_agent,omitempty"`
	// Starts is set once a call of the run has started another run.
	Starts         bool   `json:"starts,omitempty"`
	RequestedBy    Actor  `json:"requested_by"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// IdempotencyDigest is of what the key was given for: program, input and
	// options. Runs of an older pml have none.
	IdempotencyDigest string `json:"idempotency_digest,omitempty"`
	// Runner names the process that runs it; Epoch grows with each take-over,
	// and a commit with an older one is refused.
	Runner string `json:"runner,omitempty"`
	Epoch  int64  `json:"epoch"`
	// DAGVersion counts the replans of a DAG; the first version is 1.
	DAGVersion int `json:"dag_version,omitempty"`
	// Abort is set by whoever asks for an abort; the runner carries it out.
	Abort *AbortRequest `json:"abort,omitempty"`
	// JournalSeq is the sequence number of the newest journal record.
	JournalSeq int64 `json:"journal_seq"`
	// ActiveMS is how long the run has run so far, time spent waiting for a
	// person left out; Options.TimeoutMS limits it.
	ActiveMS float64 `json:"active_ms,omitempty"`
	// Imported is set on a copy of a run of another store: it has ended for good,
	// whatever the run itself does where it is.
	Imported *Imported `json:"imported,omitempty"`
	// Agent is what an agent has used so far; filled in where the run is shown.
	Agent *AgentSpent `json:"agent,omitempty"`
}

// Imported says where the copy of a run comes from.
type Imported struct {
	At time.Time `json:"at"`
	By Actor     `json:"by"`
	// State and Workspace are those that the run had when it was exported.
	State     RunState `json:"state"`
	Workspace string   `json:"workspace"`
	// Digest is that of the file: the same file again is the same copy.
	Digest string `json:"digest"`
}

// RunOptions are the choices a caller made for a run.
type RunOptions struct {
	TimeoutMS int64           `json:"timeout_ms,omitempty"` // total, human time not counted; 0: the default
	PerLayer  bool            `json:"per_layer_validation,omitempty"`
	HIL       HIL             `json:"hil,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	// Allowed are the only tools that the run may call, as globs of server:tool; nil:
	// whatever the rules of its workspace let it call. Of a run that an agent started.
	Allowed *[]string `json:"allowed_tools,omitempty"`
	// MaxCalls bounds the calls of the run where that is less than its workspace's
	// limit; 0: it does not.
	MaxCalls int `json:"max_calls,omitempty"`
	// Bounds are the lists of the runs above, each of which must allow a tool as well.
	Bounds [][]string `json:"allowed_above,omitempty"`
	// Budget is what agents that the run starts may spend together; of a run that an
	// agent started.
	Budget AgentBudget `json:"budget,omitzero"`
	// Agents counts the agents that the run is in, itself included if it is one.
	Agents int `json:"agents,omitempty"`
}

// AllowedLists are the lists of tools that bound a run: its own, and those of the runs
// above.
func (o RunOptions) AllowedLists() [][]string {
	lists := slices.Clone(o.Bounds)
	if o.Allowed != nil {
		lists = append(lists, *o.Allowed)
	}
	return lists
}

// AgentOfChildren is the UnderAgent of what the run begins: the agent at the root of the
// tree.
func (r *Run) AgentOfChildren() ID {
	if r.UnderAgent == "" && r.Kind == KindAgent {
		return r.ID
	}
	return r.UnderAgent
}

// Dropped is a call that a run had asked for and that has no outcome, because
// the run ended first.
type Dropped struct {
	TaskID string `json:"task_id"`
	Tool   string `json:"tool"`
	// MayHaveRun is set of a call that was sent once without an answer, and that
	// waited for a person to say what became of it. The others were never sent.
	MayHaveRun bool `json:"may_have_run,omitempty"`
}

// AbortRequest asks the runner of a run to abort it.
type AbortRequest struct {
	By     Actor     `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	// Follows is set where nobody has asked: the run that started this one has ended.
	Follows bool `json:"follows,omitempty"`
}

// Text says that a run was aborted: by whom, by what means and why. It is foreign text.
func (r AbortRequest) Text() string {
	text := "aborted"
	if !r.Follows && r.By != (Actor{}) {
		text += " by " + r.By.Origin()
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// RejectedApproval is the reason of an abort by a no that gave none.
const RejectedApproval = "User rejected approval"

// ShownAbort is the text of an abort or an error as people read it: where a no has ended the run,
// it says who denied. With a reason of its own a no looks like any abort; it is known by the
// questions of the run.
func ShownAbort(text string, asked ...Approval) string {
	for _, a := range asked {
		d := a.DecidedBy
		if a.Type == ApproveLayer && a.State == ApprovalDenied && d != nil && d.Reason != "" && text == (AbortRequest{By: d.Actor, Reason: d.Reason}).Text() {
			return "denied" + strings.TrimPrefix(text, "aborted")
		}
	}
	who, rejected := strings.CutSuffix(text, ": "+RejectedApproval)
	if who, aborted := strings.CutPrefix(who, "aborted"); rejected && aborted {
		return "denied" + who
	}
	return text
}

// Program is what a run executes. Code and DAGs are kept apart from the run's
// header because they are large and change only on a replan.
type Program struct {
	Kind Kind `json:"kind"`
	// Version is the DAG version, 1 for code.
	Version int `json:"version"`
	// Source is the code as the user gave it; Script the JavaScript stripped
	// from it that every replay runs; Sandbox the version that stripped it.
	Source  string `json:"source,omitempty"`
	Script  string `json:"script,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	// File is the name of the source for messages, empty when there is none.
	File string `json:"file,omitempty"`
	// ResultBytes is the bound on its result that a script has begun with, which every replay
	// tells it again; 0: that was not said.
	ResultBytes int64 `json:"result_bytes,omitempty"`
	// Results are the runs whose results a script has as results, by handle.
	Results map[string]ID `json:"results,omitempty"`
	// Tasks is the DAG, Added what replans put behind its first tasks.
	Tasks []TaskSpec `json:"tasks,omitempty"`
	Added []Addition `json:"added,omitempty"`
	// Plan is what analysis predicted.
	Plan *Plan `json:"plan,omitempty"`
	// Agent is what a run of kind agent works towards.
	Agent *AgentSpec `json:"agent,omitempty"`
}

// Addition is one replan of a DAG: the tasks from an index on were added, none
// of them in a layer below Floor.
type Addition struct {
	From  int `json:"from"`
	Floor int `json:"floor"`
}

// Checkpoint marks a complete layer: a position in the journal, never a copy.
type Checkpoint struct {
	ID         ID        `json:"id"`
	RunID      ID        `json:"workflow_id"`
	Layer      int       `json:"layer_index"`
	DAGVersion int       `json:"dag_version"`
	JournalSeq int64     `json:"journal_seq"`
	CreatedAt  time.Time `json:"created_at"`
}

// CheckpointView is a run as it stood at a checkpoint, computed from the journal
// up to it.
type CheckpointView struct {
	Checkpoint
	// Tasks are in the order of their layers; what had not begun yet of a DAG is
	// queued.
	Tasks []Task `json:"tasks"`
	// Decisions are the approvals that had been decided, Messages the lines and
	// warnings that the run had given, oldest first.
	Decisions []Approval `json:"decisions"`
	Messages  []Event    `json:"messages"`
}

// Workflow is a run as callers see it: its header with layers, tasks and
// approvals, computed from the journal.
type Workflow struct {
	Run
	Layers    []Layer    `json:"layers"`
	Approvals []Approval `json:"approvals"`
}

// FailedLayer is the layer, from 1, in which the first task of a DAG that has failed did so:
// what came after it was skipped, and those layers count as done. 0: none did.
func (w Workflow) FailedLayer() int {
	if w.State != RunFailed || w.Kind != KindDAG {
		return 0
	}
	for i, l := range w.Layers {
		if slices.ContainsFunc(l.Tasks, func(t Task) bool { return t.State == TaskError }) {
			return i + 1
		}
	}
	return 0
}

// FaultOfProgram reports whether a script or a DAG has failed on a fault of its program, so
// that a retry, which runs the program as it was, fails as well.
func (r Run) FaultOfProgram() bool {
	return r.State == RunFailed && r.Kind != KindAgent && r.Error != nil && r.Error.OfProgram()
}

// Layer is a set of tasks that may run at the same time.
type Layer struct {
	Index int    `json:"index"`
	Tasks []Task `json:"tasks"`
}

// UTC returns a time in UTC as a new value; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
