// Package api holds the wire types: what a caller sends to execute and
// continue runs, and what it gets back, as the published contract names them.
package api

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// Status is the word in a result's status field.
type Status string

// The statuses of results.
const (
	StatusSuccess          Status = "success"
	StatusComplete         Status = "complete"
	StatusLayerComplete    Status = "layer_complete"
	StatusApprovalRequired Status = "approval_required"
	StatusAwaitingHuman    Status = "awaiting_human"
	StatusHalted           Status = "halted" // the run waits, as a person has halted all calls
	StatusRunning          Status = "running"
	StatusSuggestions      Status = "suggestions"
	StatusExecuteLocally   Status = "execute_locally"
	StatusReplanned        Status = "replanned"
	StatusAborted          Status = "aborted"
	StatusError            Status = "error"
)

// ExecuteRequest asks for a new run. At most one of Code, Tasks, Agent and Accept is
// set; without any the Intent asks for suggestions, otherwise it is a label.
type ExecuteRequest struct {
	// ID is the run's, for one that a server gave away (Origin is its URL); empty
	// otherwise.
	ID     core.ID
	Origin string
	Intent string
	// Name is what people are to call the run; empty: pml finds a name.
	Name   string
	Accept *Acceptance
	// Detach wants the run to outlive this process: a server runs it.
	Detach bool
	Code   string
	// File names the source in messages.
	File  string
	Tasks []core.TaskSpec
	// Agent is a goal that a model is to reach.
	Agent *core.AgentSpec
	core.RunOptions
	IdempotencyKey string
	By             core.Actor
	// Wait bounds how long the call may take; negative: until the run ends or
	// pauses. The run goes on behind a call that stops waiting.
	Wait time.Duration
	// HoldApprovals makes the call wait while approvals are open, for another
	// process to decide them.
	HoldApprovals bool
	// Started, when set, is called with the run's id as soon as there is a run, before
	// the call waits for it. It must not block.
	Started func(core.ID) `json:"-"`
	// Warned, when set, is called with what the plan of a run of this machine warns of, as
	// soon as there is a run. The result has it as well.
	Warned func([]core.PlanNote) `json:"-"`
}

// Decision says what to do with a run that waits.
type Decision struct {
	Approve bool
	// Checkpoint names one approval; empty means the first that waits.
	Checkpoint core.ID
	// AllOfType decides all open approvals of a type (never integrity).
	AllOfType    core.ApprovalType
	ExpectDigest string
	Abort        bool // with Approve false: also abort the run
	Reason       string
	Answer       *core.Answer
	// More, with Approve, is what a person gives an agent that has used up what it had.
	// It is about no approval; the other fields but Reason, Pin and Presence are empty.
	More *core.AgentMore
	// Pin is what was typed where a PIN is set: an approval needs it, and with
	// approvals.decider human it shows that whoever decides is a person.
	Pin string
	// Presence is core.PresenceTerminal from a caller that has shown what is asked
	// on a terminal, and was answered there. It counts within a process only: what
	// another one claims is never believed.
	Presence core.Presence `json:"-"`
}

// ContinueRequest goes on with a run; without a Decision it takes up an
// interrupted run, asks again for what expired or passes the pause after a layer.
type ContinueRequest struct {
	ID            core.ID
	Decision      *Decision
	Reason        string
	By            core.Actor
	Wait          time.Duration
	HoldApprovals bool
	// Follow passes no pause: it is set by who only waits for a run, which may have
	// come to a pause meanwhile that nobody has seen.
	Follow bool
}

// Result is what execute and continue answer, whatever happened.
type Result struct {
	Status     Status  `json:"status"`
	WorkflowID core.ID `json:"workflow_id,omitempty"`
	// Kind is set of an agent: its Result is a core.AgentResult.
	Kind            core.Kind       `json:"kind,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"`
	ExecutedLocally bool            `json:"executed_locally,omitempty"`
	ExecutionTimeMS float64         `json:"execution_time_ms,omitempty"`
	DAG             *DAGSummary     `json:"dag,omitempty"`
	// Totals are set once the run has ended, nil before.
	*Totals

	// layer_complete
	CheckpointID core.ID `json:"checkpoint_id,omitempty"`
	// Pause says of layer_complete that a continue without a decision passes it.
	Pause        bool          `json:"pause,omitempty"`
	LayerIndex   *int          `json:"layer_index,omitempty"`
	TotalLayers  int           `json:"total_layers,omitempty"`
	LayerResults []LayerResult `json:"layer_results,omitempty"`
	NextLayer    *LayerPreview `json:"next_layer_preview,omitempty"`
	Options      []string      `json:"options,omitempty"`
	// Decide says to an agent how what waits is decided; people get Next.
	Decide    string     `json:"decide,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`

	// approval_required: the first one, and all of them
	ApprovalType core.ApprovalType `json:"approval_type,omitempty"`
	Description  string            `json:"description,omitempty"`
	Context      json.RawMessage   `json:"context,omitempty"`
	Digest       string            `json:"digest,omitempty"`
	Pending      []core.Approval   `json:"pending,omitempty"`

	// Notices are what the caller has to know beside the outcome, e.g. that a
	// restriction was taken out of the workspace's files.
	Notices []string `json:"notices,omitempty"`
	// Warnings are those of the plan of a run that was just begun, or of a program that is
	// not valid: mistakes that do not stop it by themselves.
	Warnings []core.PlanNote `json:"warnings,omitempty"`

	// suggestions
	Suggestions *Suggestions `json:"suggestions,omitempty"`

	// execute_locally, from a server to a client
	Code        string     `json:"code,omitempty"`
	ToolsUsed   []string   `json:"tools_used,omitempty"`
	ClientTools []string   `json:"client_tools,omitempty"`
	Plan        *core.Plan `json:"plan,omitempty"`
	// Workflow is the DAG to run where it is no code.
	Workflow *WorkflowBody `json:"workflow,omitempty"`

	// Dropped are the calls that an abort or a failure took back.
	Dropped []core.Dropped `json:"dropped,omitempty"`

	// aborted, rejected
	Reason string `json:"reason,omitempty"`

	// replanned
	NewTasksCount int      `json:"new_tasks_count,omitempty"`
	NewTaskIDs    []string `json:"new_task_ids,omitempty"`
	TotalTasks    int      `json:"total_tasks,omitempty"`

	// error
	Error     string    `json:"error,omitempty"`
	ErrorCode core.Code `json:"error_code,omitempty"`
	// Retryable says that the same, asked for again later, may go well.
	Retryable bool            `json:"retryable,omitempty"`
	Location  *core.Position  `json:"location,omitempty"`
	Failures  []core.Failure  `json:"failures,omitempty"`
	Faults    []core.Fault    `json:"faults,omitempty"`
	Next      []string        `json:"next,omitempty"`
	Decided   *core.DecidedBy `json:"decided_by,omitempty"`
	Stack     string          `json:"stack,omitempty"`
}

// Totals count what a run that has ended did; zeros are said too.
type Totals struct {
	ReplayedCalls   int `json:"replayed_calls" required:"false"`
	SuccessfulTasks int `json:"successful_tasks" required:"false"`
	FailedTasks     int `json:"failed_tasks" required:"false"`
}

// DAGSummary says how large a run was.
type DAGSummary struct {
	Tasks  int      `json:"tasks_count"`
	Layers int      `json:"layers_count"`
	Tools  []string `json:"tools"`
}

// LayerResult is a task's outcome in a layer_complete result.
type LayerResult struct {
	TaskID     string          `json:"task_id"`
	Tool       string          `json:"tool"`
	Status     core.TaskState  `json:"status"`
	Output     json.RawMessage `json:"output,omitempty"`
	Error      string          `json:"error,omitempty"`
	DurationMS float64         `json:"execution_time_ms"`
}

// LayerPreview names the tasks that would run next, as far as they are known.
type LayerPreview struct {
	Index int           `json:"layer_index"`
	Tasks []PreviewTask `json:"tasks"`
}

// PreviewTask is one task of a preview.
type PreviewTask struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
}

// LookAndTrust ends the notices of what counts once a person has trusted it.
const LookAndTrust = ": pml trust"

// Page is how every list is answered.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
	// Warnings say what the list does not have: one half of pml did not answer.
	Warnings []string `json:"warnings,omitempty"`
	// Notices are what a person has to know of the workspace beside the list, as
	// those of a Result.
	Notices []string `json:"notices,omitempty"`
}

// Since is the number after which events, or rows of the audit log, are wanted.
// Each half of pml numbers its own; Any is for where one of them is meant.
type Since struct{ Any, Client, Server int64 }

// Past is since with what comes up to a number of a side left out, too.
func (s Since) Past(side core.Side, n int64) Since {
	if side == core.SideServer {
		return Since{Client: max(s.Any, s.Client), Server: n}
	}
	return Since{Client: n, Server: max(s.Any, s.Server)}
}

// Of is the number of a half.
func (s Since) Of(side core.Side) int64 {
	if side == core.SideServer {
		return max(s.Any, s.Server)
	}
	return max(s.Any, s.Client)
}

// TrustState says what a workspace's files grant and whether this machine
// trusts it.
type TrustState struct {
	Workspace string `json:"workspace"`
	Trusted   bool   `json:"trusted"`
	// Empty is set when the files grant nothing, so that nothing is asked.
	Empty  bool   `json:"empty,omitempty"`
	Digest string `json:"digest"`
	// Content is what would be trusted, Diff what changed since it last was.
	Content string `json:"content"`
	Diff    string `json:"diff,omitempty"`
	// TakenOut are the restrictions that the files had and do not have any more,
	// e.g. `permissions.deny: "fs:delete"`. They hold until this state is trusted.
	TakenOut []string `json:"taken_out,omitempty"`
	// LockAside is set when nothing but pml.lock is another one than was trusted: the
	// one that was trusted counts in its place until this state is trusted.
	LockAside bool `json:"lock_aside,omitempty"`
	// Human is set where people decide (approvals.decider): then they trust, too.
	Human bool `json:"human,omitempty"`
	// Warnings name servers and flows whose code can change without anybody being asked:
	// an image without a digest, a package without a version, a hook that runs what make
	// finds.
	Warnings []string `json:"warnings,omitempty"`
}

// Check is one finding of doctor.
type Check struct {
	Name   string   `json:"name"`
	Status string   `json:"status"` // ok, warn, fail
	Detail string   `json:"detail"`
	Next   []string `json:"next,omitempty"`
}

// Paths are the places that pml reads and writes, as absolute paths. A file
// need not exist.
type Paths struct {
	Home       string `json:"home"`
	HomeConfig string `json:"home_config"`
	Workspace  string `json:"workspace"`
	Config     string `json:"config"`
	Lock       string `json:"lock"`
}

// AuditReport is the answer of audit verify.
type AuditReport struct {
	// Side is whose log it is about; of a report on several, whose row is bad.
	Side core.Side `json:"side,omitempty"`
	Rows int       `json:"rows"`
	OK   bool      `json:"ok"`
	Bad  int64     `json:"first_bad_seq,omitempty"`
	// Reason says what is wrong with the first bad row, or why the log could not
	// be checked: then there is no bad row.
	Reason string `json:"reason,omitempty"`
	// Logs are the reports on each log, of a report on several.
	Logs []AuditReport `json:"logs,omitempty"`
}
