package api

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// The headers by which a caller on the server's own socket says who it is and
// where it stands. Over TCP they are refused, but for what says that an agent's
// host is calling ("Pml-Via: mcp", and its name): that is
// believed everywhere.
const (
	HeaderWorkspace = "Pml-Workspace" // absolute path of a folder, percent-encoded
	HeaderVia       = "Pml-Via"       // cli, tui or mcp; http without it
	HeaderAgent     = "Pml-Agent"     // the name of an agent's host, percent-encoded
	// HeaderAgentVersion and HeaderAgentTitle are what the host says beside its name,
	// percent-encoded.
	HeaderAgentVersion = "Pml-Agent-Version"
	HeaderAgentTitle   = "Pml-Agent-Title"
)

// Protocol is the version of the HTTP interface. A client refuses a server of another one.
const Protocol = 1

// Scope is whose runs a request may see and move, and the folder it acts in.
type Scope struct {
	// Owner restricts to the runs of an API key's owner; empty on the socket,
	// where the file's mode has already said who it is: then all runs.
	Owner string
	// Workspace is the folder whose files apply, absolute; empty: the server's
	// own. With Confined only runs of this folder are seen and moved, as an MCP
	// caller does.
	Workspace string
	Confined  bool
	By        core.Actor
}

// ExecuteBody is what execute takes over HTTP and MCP.
type ExecuteBody struct {
	Intent   string          `json:"intent,omitempty"`
	Name     string          `json:"name,omitempty"` // what people are to call the run
	Code     string          `json:"code,omitempty"`
	File     string          `json:"file,omitempty"` // names the source in messages
	Workflow *WorkflowBody   `json:"workflow,omitempty"`
	Agent    *AgentBody      `json:"agent,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Options  *ExecuteOptions `json:"options,omitempty"`
	// AcceptSuggestion runs what was suggested; ContinueWorkflow is the older
	// spelling of a decision.
	AcceptSuggestion *Acceptance       `json:"accept_suggestion,omitempty"`
	ContinueWorkflow *ContinueWorkflow `json:"continue_workflow,omitempty"`
}

// AgentBody is a goal that a model is to reach, and its bounds.
type AgentBody struct {
	Goal    string          `json:"goal" minLength:"1"`
	Context json.RawMessage `json:"context,omitempty"` // data for the model
	// AllowedTools are globs of server:tool; left out: all that the caller may use.
	AllowedTools  *[]string         `json:"allowed_tools,omitempty"`
	MaxIterations int               `json:"max_iterations,omitempty" minimum:"0" maximum:"50"`
	Budget        *core.AgentBudget `json:"budget,omitempty"`
	Model         string            `json:"model,omitempty"`
	// OutputSchema is the JSON schema of the result; without it the result is text.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// Spec is the agent that is asked for; nil where none is.
func (b *AgentBody) Spec() *core.AgentSpec {
	if b == nil {
		return nil
	}
	s := &core.AgentSpec{Goal: b.Goal, Context: b.Context, Allowed: b.AllowedTools, Iterations: b.MaxIterations, Model: b.Model, OutputSchema: b.OutputSchema}
	if b.Budget != nil {
		s.Budget = *b.Budget
	}
	return s
}

// AgentBodyOf is the body that asks for an agent; nil where none is asked for.
func AgentBodyOf(s *core.AgentSpec) *AgentBody {
	if s == nil {
		return nil
	}
	return &AgentBody{Goal: s.Goal, Context: s.Context, AllowedTools: s.Allowed, MaxIterations: s.Iterations, Model: s.Model, Budget: &s.Budget, OutputSchema: s.OutputSchema}
}

// WorkflowBody is a DAG.
type WorkflowBody struct {
	Tasks []core.TaskSpec `json:"tasks"`
}

// ExecuteOptions are the choices of an execute. Times are milliseconds.
type ExecuteOptions struct {
	Timeout        int64    `json:"timeout,omitempty" minimum:"0"`
	Wait           int64    `json:"wait,omitempty"` // how long the answer may take; negative: until it ends or pauses
	PerLayer       bool     `json:"per_layer_validation,omitempty"`
	HIL            core.HIL `json:"hil,omitempty"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	// HoldApprovals goes on waiting while approvals are open, within Wait.
	HoldApprovals bool `json:"hold_approvals,omitempty"`
	// Detach wants the server to run it: it is not given back to the caller,
	// whatever the routing says.
	Detach bool `json:"detach,omitempty"`
}

// Acceptance says which suggestion to run: a DAG (as suggested, or changed), or
// the name of a tool with its arguments.
type Acceptance struct {
	CallName string          `json:"callName,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	Workflow *WorkflowBody   `json:"workflow,omitempty"`
}

// ContinueWorkflow decides the first thing that a run waits for.
type ContinueWorkflow struct {
	WorkflowID   core.ID `json:"workflow_id"`
	Approved     *bool   `json:"approved" nullable:"false"`
	CheckpointID core.ID `json:"checkpoint_id,omitempty"`
	Reason       string  `json:"reason,omitempty"`
}

// ContinueBody goes on with a run, with a Decision after deciding.
type ContinueBody struct {
	Decision      *DecisionBody `json:"decision,omitempty"`
	Reason        string        `json:"reason,omitempty"`
	Wait          int64         `json:"wait,omitempty"` // ms, as in ExecuteOptions
	HoldApprovals bool          `json:"hold_approvals,omitempty"`
}

// DecisionBody is a decision over HTTP. Approved must be there and be a boolean.
type DecisionBody struct {
	Approved     *bool             `json:"approved" nullable:"false"`
	Checkpoint   core.ID           `json:"checkpoint_id,omitempty"`
	AllOfType    core.ApprovalType `json:"all_of_type,omitempty"`
	ExpectDigest string            `json:"expect_digest,omitempty"`
	Abort        bool              `json:"abort,omitempty"`
	Feedback     string            `json:"feedback,omitempty"`
	Answer       *core.Answer      `json:"answer,omitempty"`
	// More is given to an agent that has used up what it had; nothing else is decided.
	More *core.AgentMore `json:"more,omitempty"`
	Pin  string          `json:"pin,omitempty"`
	// Presence is "terminal" from a pml that has shown what is asked on its
	// terminal and was answered there. A server believes it of a caller on its
	// socket that is the same pml program, with a terminal; of nobody else.
	Presence core.Presence `json:"presence,omitempty" enum:"terminal"`
	Wait     int64         `json:"wait,omitempty"`
}

// AbortBody says why a run is to end.
type AbortBody struct {
	Reason string `json:"reason,omitempty"`
}

// HaltBody says why all calls are halted.
type HaltBody struct {
	Reason string `json:"reason,omitempty"`
}

// ResumeBody lets calls go on that were halted. Pin and Presence are as those of a
// DecisionBody.
type ResumeBody struct {
	Reason   string        `json:"reason,omitempty"`
	Pin      string        `json:"pin,omitempty"`
	Presence core.Presence `json:"presence,omitempty" enum:"terminal"`
}

// ReplanBody adds tasks, or asks for some to be suggested for a requirement.
type ReplanBody struct {
	NewTasks         []core.TaskSpec `json:"new_tasks,omitempty"`
	NewRequirement   string          `json:"new_requirement,omitempty"`
	AvailableContext json.RawMessage `json:"available_context,omitempty"`
	Reason           string          `json:"reason,omitempty"`
}

// RetryBody says how long a retry may take to answer, in ms.
type RetryBody struct {
	Wait int64 `json:"wait,omitempty"`
}

// EditedBody are the arguments that are to be sent instead.
type EditedBody struct {
	Arguments json.RawMessage `json:"arguments"`
}

// ExtendBody gives an approval more time, in ms from its present expiry.
type ExtendBody struct {
	By int64 `json:"by_ms" minimum:"1"`
}

// Trace is what a client reports of a run that a server gave it: how it ended
// and what it did, values of keys left out.
type Trace struct {
	State    core.RunState   `json:"state"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *core.Error     `json:"error,omitempty"`
	Records  []core.Record   `json:"records"`
	ActiveMS float64         `json:"active_ms,omitempty"`
}

// Problem is an error over HTTP (RFC 9457). Its code is the error's; the rest
// of the error is beside it, so that a client has it whole.
type Problem struct {
	Type   string    `json:"type"` // "about:blank"
	Title  string    `json:"title"`
	Status int       `json:"status"`
	Detail string    `json:"detail"`
	Code   core.Code `json:"code"`
	// Error is the whole error.
	Error *core.Error `json:"pml_error,omitempty"`
}

// Snapshot is the first frame of a stream of events: all that is not finished
// and the newest of the rest, and what waits. Seq is the last event it has in it.
type Snapshot struct {
	Seq        int64           `json:"seq"`
	ServerTime time.Time       `json:"server_time"`
	Workflows  []core.Run      `json:"workflows"`
	Approvals  []core.Approval `json:"approvals"`
}

// Suggestions are what an intent could mean.
type Suggestions struct {
	Confidence float64 `json:"confidence"` // of the first, 0 to 1; 0 without any
	// SuggestedDAG is what would run: to be accepted as it is, or changed.
	SuggestedDAG *SuggestedDAG `json:"suggestedDag,omitempty"`
	// Tools are those that fit best, best first.
	Tools []SuggestedTool `json:"tools"`
	// Error says why nothing could be suggested.
	Error string `json:"error,omitempty"`
}

// SuggestedDAG is a DAG for an intent. Missing names required arguments that
// nothing says.
type SuggestedDAG struct {
	Tasks   []core.TaskSpec   `json:"tasks"`
	Missing []MissingArgument `json:"missing,omitempty"`
}

// MissingArgument is a required argument without a value.
type MissingArgument struct {
	TaskID   string `json:"task_id"`
	Argument string `json:"argument"`
}

// SuggestedTool is a tool that fits an intent.
type SuggestedTool struct {
	CallName    string          `json:"callName"`
	Score       float64         `json:"score"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	// Risk is high for a tool whose name says that it destroys something.
	Risk core.Risk `json:"risk,omitempty"`
}

// ServerStatus says which server answers, and what it does.
type ServerStatus struct {
	Version   string    `json:"version"`
	Protocol  int       `json:"protocol"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Socket    string    `json:"socket,omitempty"`
	URL       string    `json:"url,omitempty"`
	Store     string    `json:"store"` // bbolt or postgres
	// Background is set for one that pml started by itself and that leaves when
	// nobody needs it.
	Background bool `json:"background"`
	Running    int  `json:"running"`
	Waiting    int  `json:"waiting"`
	Approvals  int  `json:"approvals"`
	Readers    int  `json:"readers"` // of events, connected now
}

// ToolList is what GET /tools answers. Problems name the servers whose tools
// could not be listed, and why.
type ToolList struct {
	Items    []core.Tool  `json:"items"`
	Problems []core.Fault `json:"problems,omitempty"`
}

// RunResult is how a run ended, or that it has not.
type RunResult struct {
	WorkflowID core.ID         `json:"workflow_id"`
	State      core.RunState   `json:"state"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *core.Error     `json:"error,omitempty"`
}
