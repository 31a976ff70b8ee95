package core

import (
	"encoding/json"
	"strings"
	"time"
)

// TaskState is the state of a task, as screens and filters name it.
type TaskState string

// The states of a task.
const (
	TaskQueued     TaskState = "queued"
	TaskRunning    TaskState = "running"
	TaskWaiting    TaskState = "waiting"
	TaskSuccess    TaskState = "success"
	TaskError      TaskState = "error"
	TaskFailedSafe TaskState = "failed_safe"
	TaskSkipped    TaskState = "skipped"
)

// Settled reports whether the task has its outcome.
func (s TaskState) Settled() bool {
	switch s {
	case TaskSuccess, TaskError, TaskFailedSafe, TaskSkipped:
		return true
	case TaskQueued, TaskRunning, TaskWaiting:
		return false
	}
	return false
}

// Task is one tool call (or one task of a DAG) as callers see it.
type Task struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool"` // server:tool
	State      TaskState       `json:"state"`
	Layer      int             `json:"layer_index"`
	Attempt    int             `json:"attempt"`
	StartedAt  *time.Time      `json:"started_at,omitempty"`
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
	DurationMS float64         `json:"execution_time_ms,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	// Sent is what was sent instead of Arguments, where a person or a hook flow has
	// changed them.
	Sent json.RawMessage `json:"sent,omitempty"`
	// AllowedBy says because of what nobody was asked: a rule with its list ("allow
	// memory:*", or "readonly" for permissions.readonly), an earlier answer ("approval
	// 7f3a91c2, for all calls of the tool", "… within its bounds"), or "a person, for the session";
	// empty where a person was asked about this call, or where none has to be.
	AllowedBy string          `json:"allowed_by,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	// DependsOn are the tasks that it comes after, where that is known: of a DAG,
	// and of code that has called nothing yet.
	DependsOn []string `json:"depends_on,omitempty"`
	// Predicted marks a task that analysis expects and nothing has called yet.
	Predicted bool `json:"predicted,omitempty"`
}

// Made are the arguments that the call is, or was, made with.
func (t Task) Made() json.RawMessage {
	if len(t.Sent) > 0 {
		return t.Sent
	}
	return t.Arguments
}

// ShownAllowedBy is why nobody was asked about a call (Task.AllowedBy), as people read it.
func ShownAllowedBy(by string) string {
	if strings.HasPrefix(by, "approval ") {
		return "permitted by the " + by
	}
	return "nobody was asked: " + by
}

// TaskType is the type of a task of a DAG. The empty value means TypeTool.
type TaskType string

// The types of a task.
const (
	TypeTool TaskType = "mcp_tool"
	TypeCode TaskType = "code"
	// TypeAgent works towards the goal in its arguments: it calls DelegateTool.
	TypeAgent TaskType = "agent"
)

// TaskSpec is a task of a DAG as its author wrote it.
type TaskSpec struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	DependsOn  []string        `json:"depends_on,omitempty"`
	Type       TaskType        `json:"type,omitempty"`
	Code       string          `json:"code,omitempty"`
	TimeoutMS  int64           `json:"timeout_ms,omitempty"`
	Retry      *Retry          `json:"retry,omitempty"`
	SafeToFail bool            `json:"safe_to_fail,omitempty"`
	// SideEffects overrides what is known of the tool: true makes a crash ask,
	// false lets the task run again.
	SideEffects *bool  `json:"side_effects,omitempty"`
	When        string `json:"when,omitempty"`
}

// Retry says how often a failing task is tried.
type Retry struct {
	MaxAttempts int   `json:"max_attempts"`
	BackoffMS   int64 `json:"backoff_ms,omitempty"` // doubled after each attempt
}

// Tool is a tool of an MCP server.
type Tool struct {
	Server       string          `json:"server"`
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  Annotations     `json:"annotations"`
	// Rest is what else its server says of it, a JSON object, nil for nothing: who
	// gets the definition whole reads that too. No answer of pml's own holds it.
	Rest json.RawMessage `json:"-"`
}

// ID returns the tool's full name, server:tool.
func (t Tool) ID() string { return t.Server + ":" + t.Name }

// Annotations are the hints of MCP about a tool. A hint that the server did
// not give is nil; MCP's own defaults are the cautious ones.
type Annotations struct {
	ReadOnly    *bool `json:"read_only,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"open_world,omitempty"`
}

// IsReadOnly reports whether the tool says that it changes nothing.
func (a Annotations) IsReadOnly() bool { return a.ReadOnly != nil && *a.ReadOnly }

// Repeatable reports whether a call may safely be made twice.
func (a Annotations) Repeatable() bool {
	return a.IsReadOnly() || a.Idempotent != nil && *a.Idempotent
}

// IsDestructive reports whether the tool may destroy something. MCP's default
// for a tool that is not read-only is that it may.
func (a Annotations) IsDestructive() bool {
	return !a.IsReadOnly() && (a.Destructive == nil || *a.Destructive)
}

// SplitTool cuts "server:tool" at its first colon. ok is false when either
// half is missing.
func SplitTool(id string) (server, tool string, ok bool) {
	server, tool, ok = strings.Cut(id, ":")
	return server, tool, ok && server != "" && tool != ""
}
