package core

import (
	"encoding/json"
	"time"
)

// RecordKind is the kind of a journal record.
type RecordKind string

// The kinds of journal record. The engine writes all of them for the runs that it
// executes; the journal of a list of reads has settled records only, and a client
// that ran a program itself reports records of every kind. Replay reads the whole
// journal and ignores the records of a call before its last void record.
const (
	// RecordStarted is written when a call begins that is neither read-only nor
	// idempotent. It is committed before the request is sent. Replay that finds no
	// later outcome takes the call as in doubt: it asks instead of sending again.
	RecordStarted RecordKind = "started"
	// RecordParked is written when a call first stops at a gate. Replay checks the
	// gates again, and refuses the call if a person has denied since that time what
	// the gates may not ask any more.
	RecordParked RecordKind = "parked"
	// RecordSettled holds the outcome of a call, also of one that was denied or
	// skipped, of a code task, and of a sleep that has ended. Replay answers the
	// call from it, after it has compared tool and arguments; the order of these
	// records is the order in which the program gets its outcomes.
	RecordSettled RecordKind = "settled"
	// RecordLayer is written when layers are barriers and the outcomes of one are
	// delivered together. Replay delivers them as of the same time.
	RecordLayer RecordKind = "layer"
	// RecordVoid cancels the records of a call so far; the call is made again, as
	// its next attempt. Three cases differ in their fields: a person's retry has
	// neither Error nor ArgsDigest; a failed attempt that the task's own retry
	// policy repeats has the Error; a call that was begun and certainly never sent
	// has an ArgsDigest and no Error. Whether a call is in doubt is not cancelled:
	// replay still reads that from all records of the call.
	RecordVoid RecordKind = "void"
)

// Outcome is how a call ended.
type Outcome string

// The outcomes of a call.
const (
	OutcomeSuccess    Outcome = "success"
	OutcomeError      Outcome = "error"
	OutcomeFailedSafe Outcome = "failed_safe"
	OutcomeSkipped    Outcome = "skipped"
	OutcomeDenied     Outcome = "denied"
	OutcomeCancelled  Outcome = "cancelled"
)

// The pseudo-tools under which a script's sleeps, the code tasks of a DAG, and what an
// agent does are journaled: a request to its model, a run that it starts. No server can
// be named pml.
const (
	SleepTool = "pml:sleep"
	CodeTool  = "pml:code"
	ModelTool = "pml:model"
	RunTool   = "pml:run"
)

// Record is one line of a run's journal. A run has one writer, its runner,
// which numbers the records from 1 on.
type Record struct {
	Seq     int64      `json:"seq"`
	Kind    RecordKind `json:"kind"`
	CallID  string     `json:"call_id,omitempty"` // "c1", "c2" … in a script, the task's id in a DAG
	Tool    string     `json:"tool,omitempty"`
	Layer   int        `json:"layer_index"`
	Attempt int        `json:"attempt,omitempty"`
	// ArgsDigest is Digest of the arguments as the program passed them; replay
	// compares it. Args are those arguments, Sent what is sent instead when hook flows
	// or a person have changed them.
	ArgsDigest string          `json:"args_digest,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Sent       json.RawMessage `json:"sent,omitempty"`
	// Passage is what hook flows made of the call; nil: it has met none. Its Args are
	// left out where Sent has them: a person has changed nothing after the flows.
	Passage *Passage `json:"passage,omitempty"`
	// AllowedBy is because of what nobody was asked ([Task.AllowedBy]).
	AllowedBy string          `json:"allowed_by,omitempty"`
	Outcome   Outcome         `json:"outcome,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	// Agent is what the agent that the call has started was given and has used.
	Agent *AgentShare `json:"agent,omitempty"`
	// At is when the record was written; for a settled record it is the time
	// that the program sees from then on.
	At time.Time `json:"at"`
}

// DurationMS is how long the call of a settled record took.
func (r Record) DurationMS() float64 {
	if r.StartedAt.IsZero() {
		return 0
	}
	return float64(r.At.Sub(r.StartedAt).Microseconds()) / 1000
}

// State returns the task state that a settled record stands for.
func (o Outcome) State() TaskState {
	switch o {
	case OutcomeSuccess:
		return TaskSuccess
	case OutcomeFailedSafe:
		return TaskFailedSafe
	case OutcomeSkipped:
		return TaskSkipped
	case OutcomeError, OutcomeDenied, OutcomeCancelled:
		return TaskError
	}
	return TaskError
}
