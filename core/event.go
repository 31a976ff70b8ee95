package core

import (
	"encoding/json"
	"strings"
	"time"
)

// EventType names what happened.
type EventType string

// The types of event.
const (
	EventWorkflowStart     EventType = "workflow_start"
	EventLayerStart        EventType = "layer_start"
	EventTaskStart         EventType = "task_start"
	EventTaskComplete      EventType = "task_complete"
	EventTaskError         EventType = "task_error"
	EventTaskWarning       EventType = "task_warning"
	EventTaskLog           EventType = "task_log"
	EventCheckpoint        EventType = "checkpoint"
	EventApprovalRequested EventType = "approval_requested"
	EventApprovalResolved  EventType = "approval_resolved"
	EventDecisionRequired  EventType = "decision_required"
	EventReplanned         EventType = "replanned"
	EventAgentIteration    EventType = "agent_iteration"
	// EventAgentText is a piece of what a model writes, as it comes. It has no number, is not
	// kept, and goes to those who ask for it by its name.
	EventAgentText        EventType = "agent_text"
	EventWorkflowComplete EventType = "workflow_complete"
	EventWorkflowFailed   EventType = "workflow_failed"
	EventWorkflowAbort    EventType = "workflow_abort"
	EventWorkflowExpired  EventType = "workflow_expired"
)

// EventTypes lists every type that is kept, for validation and completion.
var EventTypes = []EventType{
	EventWorkflowStart, EventLayerStart, EventTaskStart, EventTaskComplete, EventTaskError, EventTaskWarning,
	EventTaskLog, EventCheckpoint, EventApprovalRequested, EventApprovalResolved, EventDecisionRequired,
	EventReplanned, EventAgentIteration, EventWorkflowComplete, EventWorkflowFailed, EventWorkflowAbort,
	EventWorkflowExpired,
}

// NamesRun reports whether events of the type say the name of their run: those by
// which a run begins, asks and ends, and not each of its steps.
func (t EventType) NamesRun() bool {
	switch t {
	case EventWorkflowStart, EventApprovalRequested, EventApprovalResolved, EventDecisionRequired,
		EventWorkflowComplete, EventWorkflowFailed, EventWorkflowAbort, EventWorkflowExpired:
		return true
	case EventLayerStart, EventTaskStart, EventTaskComplete, EventTaskError, EventTaskWarning, EventTaskLog, EventCheckpoint,
		EventReplanned, EventAgentIteration, EventAgentText:
	}
	return false
}

// Event is something that happened and is committed. Stores number events.
type Event struct {
	Seq   int64     `json:"seq"`
	Type  EventType `json:"type"`
	At    time.Time `json:"timestamp"`
	RunID ID        `json:"workflow_id"`
	// RunName is the name of the run, said where one begins, asks and ends.
	RunName    string          `json:"workflow_name,omitempty"`
	Side       Side            `json:"side,omitempty"`  // whose numbers Seq is of; filled in where both halves are shown
	Owner      string          `json:"owner,omitempty"` // of the run, filled in by the store
	TaskID     string          `json:"task_id,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Layer      *int            `json:"layer_index,omitempty"`
	ApprovalID ID              `json:"checkpoint_id,omitempty"`
	DurationMS float64         `json:"execution_time_ms,omitempty"`
	Message    string          `json:"message,omitempty"` // a log line, a warning, a reason
	Error      *Error          `json:"error,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// OwnMessage is the message of an event, empty where its error says the same: whoever shows both
// says nothing twice.
func (e *Event) OwnMessage() string {
	if e.Error != nil && strings.Contains(e.Error.Message, e.Message) {
		return ""
	}
	return e.Message
}
