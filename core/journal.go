package core

import (
	"encoding/json"
	"time"
)

// RecordKind is the kind of a journal record.
type RecordKind string

// The kinds of journal record.
const (
	// RecordStarted is written before a call runs whose repetition could hurt.
	RecordStarted RecordKind = "started"
	// RecordParked is written when a call stops at a gate.
	RecordParked RecordKind = "parked"
	// RecordSettled holds a call's outcome. The order of these records is the
	// order in which outcomes are delivered to the program.
	RecordSettled RecordKind = "settled"
	// RecordLayer marks that the results of a layer were released to the
	// program, when layers are barriers.
	RecordLayer RecordKind = "layer"
	// RecordVoid takes the outcomes of a call back, for a retry.
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

// The pseudo-tools under which a script's sleeps and the code tasks of a DAG
// are journaled. No server can be named pml.
const (
	SleepTool = "pml:sleep"
	CodeTool  = "pml:code"
)

// Record is one line of a run's journal. A run has one writer, its runner,
// which numbers the records 1, 2, 3 …
type Record struct {
	Seq     int64      `json:"seq"`
	Kind    RecordKind `json:"kind"`
	CallID  string     `json:"call_id,omitempty"` // "c1", "c2" … in a script, the task's id in a DAG
	Tool    string     `json:"tool,omitempty"`
	Layer   int        `json:"layer_index"`
	Attempt int        `json:"attempt,omitempty"`
	// ArgsDigest is Digest of the arguments as the program passed them; replay
	// compares it. Args are those arguments, Sent what was sent instead when a
	// flow changed them.
	ArgsDigest string          `json:"args_digest,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Sent       json.RawMessage `json:"sent,omitempty"`
	Outcome    Outcome         `json:"outcome,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	StartedAt  time.Time       `json:"started_at,omitzero"`
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
