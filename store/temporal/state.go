package temporal

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// state is all of a run, as its workflow holds it: its rules are functions of it and of a
// time, so that a workflow that is replayed comes to the same. What is large is a value that
// may lie outside (value).
type state struct {
	// Run has neither result nor input.
	Run      core.Run  `json:"run"`
	Result   value     `json:"result,omitzero"`
	Input    value     `json:"input,omitzero"`
	Programs []program `json:"programs"`
	// Replanned is set while no step has seen the newest version of the program.
	Replanned bool              `json:"replanned,omitempty"`
	Approvals []*question       `json:"approvals,omitempty"`
	Marks     []core.Checkpoint `json:"checkpoints,omitempty"`
	// Sealed are the pages of the journal and of the events that were taken out of the
	// workflow, oldest first; Records and Events follow on.
	Sealed  []page       `json:"sealed,omitempty"`
	Records []record     `json:"records,omitempty"`
	Events  []core.Event `json:"events,omitempty"`
	// Audit are the rows that the shared workflow does not have yet.
	Audit []core.AuditRow `json:"audit,omitempty"`
	// LastEvent is the one that the next ones follow.
	LastEvent int64 `json:"last_event"`
	// At is when the run was changed last, by the clock of who changed it, and Behind by how much
	// the workflow's clock was ahead of that then.
	At     time.Time     `json:"at"`
	Behind time.Duration `json:"behind,omitempty"`
	// Removed is set once somebody has removed the run, whose workflow ends then.
	Removed bool `json:"removed,omitempty"`
	// Below are the runs that were begun in the tree of an agent.
	Below []core.ID `json:"below,omitempty"`
}

// value is JSON, here or in the blobs under a digest.
type value struct {
	Here json.RawMessage `json:"here,omitempty"`
	Blob string          `json:"blob,omitempty"`
}

// program is a version of what a run executes.
type program struct {
	Version int   `json:"version"`
	Program value `json:"program"`
}

// record is a record of the journal: what the rules need, and all of it.
type record struct {
	Seq    int64           `json:"seq"`
	Kind   core.RecordKind `json:"kind"`
	CallID string          `json:"call_id,omitempty"`
	Record value           `json:"record"`
}

// question is an approval, whose context may lie outside.
type question struct {
	core.Approval
	Context value `json:"context_value,omitzero"`
}

// page is a part of the journal and the events of a run in the blobs. Record
// and Event are the last ones on it.
type page struct {
	Blob   string `json:"blob"`
	Record int64  `json:"record"`
	Event  int64  `json:"event"`
}

// pageBody is what a page holds.
type pageBody struct {
	Records []record     `json:"records,omitempty"`
	Events  []core.Event `json:"events,omitempty"`
}

// step is a store.Step as a workflow takes it.
type step struct {
	Run        core.Run         `json:"run"`
	Result     value            `json:"result,omitzero"`
	Input      value            `json:"input,omitzero"`
	Program    *program         `json:"program,omitempty"`
	Records    []record         `json:"records,omitempty"`
	Open       []*question      `json:"open,omitempty"`
	Supersede  []core.ID        `json:"supersede,omitempty"`
	Used       []store.Use      `json:"used,omitempty"`
	Undecided  []core.ID        `json:"undecided,omitempty"`
	Checkpoint *core.Checkpoint `json:"checkpoint,omitempty"`
	Events     []core.Event     `json:"events,omitempty"`
	Audit      []core.AuditRow  `json:"audit,omitempty"`
	// At is when the step was made.
	At time.Time `json:"at"`
	// Halt is who had halted calls when the step was made, nil: nobody.
	Halt *core.Halt `json:"halt,omitempty"`

	past *past // of a copy
}

// rules is the step as the rules that all stores share take it.
func (s *step) rules() *store.Step {
	out := &store.Step{Run: s.Run, Supersede: s.Supersede, Used: s.Used, Undecided: s.Undecided, Events: s.Events, Audit: s.Audit}
	for _, r := range s.Records {
		out.Records = append(out.Records, core.Record{Seq: r.Seq, Kind: r.Kind, CallID: r.CallID})
	}
	return out
}

// newState is a run that a step creates.
func newState(s *step, now time.Time) *state {
	st := &state{Input: s.Input}
	st.write(s, nil, now)
	return st
}

// admit refuses a step, or says what becomes of the approvals that it names. It changes
// nothing.
func (st *state) admit(s *step, now time.Time) ([]store.Settlement[*question], error) {
	if was := approval.RunAt(st.Run, now); was.State == core.RunExpired && st.Run.State != core.RunExpired {
		return nil, store.Fenced(was)
	}
	rules := s.rules()
	if err := store.Admit(rules, st.Run); err != nil {
		return nil, err
	}
	var ends []core.ID
	if s.Run.State.Final() {
		for _, q := range st.Approvals {
			ends = append(ends, q.ID)
		}
	}
	for _, q := range s.Open {
		if st.question(q.ID) != nil {
			return nil, core.Errorf(core.CodeInternal, "the approval %s exists already", q.ID.Short()).WithRun(s.Run.ID)
		}
	}
	return store.Settle(rules, ends, func(id core.ID) (*question, *core.Approval, error) {
		q := st.question(id)
		if q == nil {
			return nil, nil, approval.NotFound(id)
		}
		next := *q
		return &next, &next.Approval, nil
	})
}

// write keeps a step that admit has let through.
func (st *state) write(s *step, settled []store.Settlement[*question], now time.Time) {
	before := st.Run
	st.Replanned = st.Replanned && s.Run.DAGVersion < st.Run.DAGVersion
	st.At, st.Run = now, st.header(s, now)
	if len(s.Result.Here) > 0 || s.Result.Blob != "" {
		st.Result = s.Result
	}
	if s.Program != nil {
		st.Programs = slices.DeleteFunc(st.Programs, func(p program) bool { return p.Version == s.Program.Version })
		st.Programs = append(st.Programs, *s.Program)
	}
	st.Records = append(st.Records, s.Records...)
	if s.Checkpoint != nil {
		st.Marks = append(st.Marks, *s.Checkpoint)
		st.Marks = st.Marks[max(0, len(st.Marks)-keptCheckpoints):]
	}
	rules := s.rules()
	for _, one := range settled {
		st.put(one.Row)
		if !one.Changed() {
			continue
		}
		res := approval.Supersede(one.Before, now, approval.NotNeeded)
		if !rules.Audits(one.Before.ID) {
			st.audit(res.Row)
		}
		if !rules.Announces(one.Before.ID) {
			st.announce(approval.Resolved(res.Approval, now))
		}
	}
	for _, q := range s.Open {
		fresh := *q
		fresh.RunID, fresh.State, fresh.Owner = st.Run.ID, core.ApprovalOpen, st.Run.Owner
		st.Approvals = append(st.Approvals, &fresh)
	}
	st.announce(s.Events...)
	st.audit(rules.AuditRows(st.Run)...)
	if before.ID == "" {
		st.Run.JournalSeq = int64(len(s.Records))
	}
}

// keptCheckpoints is how many checkpoints of a run are kept.
const keptCheckpoints = 5

// header is the header of the run after a step: what others write stays.
func (st *state) header(s *step, now time.Time) core.Run {
	run, was := s.Run, st.Run
	if was.ID != "" {
		run.Abort, run.JournalSeq = was.Abort, was.JournalSeq+int64(len(s.Records))
		run.CreatedAt, run.Workspace, run.Owner, run.IdempotencyKey = was.CreatedAt, was.Workspace, was.Owner, was.IdempotencyKey
		if run.DAGVersion < was.DAGVersion { // the runner has not seen a replan yet
			run.TotalLayers = was.TotalLayers
		}
		run.DAGVersion = was.DAGVersion
		if run.State == core.RunWaiting && was.State == core.RunWaiting { // deciders move it
			run.ExpiresAt, run.HeldMS = was.ExpiresAt, was.HeldMS
		}
	}
	approval.UnderHalt(&run, s.Halt, now)
	return run
}

// claimed is the run with another runner, if nobody has claimed it since it was read: the
// caller has found that the runner is dead, which no runner recovers from.
func (st *state) claimed(from string, epoch int64, to string, now time.Time) (core.Run, error) {
	if err := approval.Claimable(st.Run, now); err != nil {
		return core.Run{}, err
	}
	if st.Run.Runner != from || st.Run.Epoch != epoch {
		return core.Run{}, core.Errorf(core.CodeFenced, "another process (runner %s) has just taken the run %s", st.Run.Runner, st.Run.ID.Short()).
			WithRun(st.Run.ID).WithNext("pml", "workflows", "watch", string(st.Run.ID))
	}
	run := st.Run
	if run.State.Final() { // what ended it is past
		run.Abort = nil
	}
	run.Runner, run.Epoch = to, run.Epoch+1
	return run, nil
}

func (st *state) question(id core.ID) *question {
	for _, q := range st.Approvals {
		if q.ID == id {
			return q
		}
	}
	return nil
}

func (st *state) put(q *question) {
	for i, old := range st.Approvals {
		if old.ID == q.ID {
			st.Approvals[i] = q
		}
	}
}

// copied is a state of which everything may be changed; what is only added to is shared.
func (st *state) copied() *state {
	next := *st
	next.Approvals = make([]*question, len(st.Approvals))
	for i, q := range st.Approvals {
		own := *q
		next.Approvals[i] = &own
	}
	next.Programs, next.Marks, next.Below = slices.Clone(st.Programs), slices.Clone(st.Marks), slices.Clone(st.Below)
	next.Records, next.Events, next.Audit = slices.Clip(st.Records), slices.Clip(st.Events), slices.Clip(st.Audit)
	return &next
}

// announce keeps events. Their numbers are their times in microseconds, or the next that are free: so events of several
// runs can be put in an order (feed).
func (st *state) announce(events ...core.Event) {
	for _, e := range events {
		st.LastEvent = max(st.LastEvent+1, e.At.UnixMicro())
		e.Seq, e.RunID, e.Owner = st.LastEvent, st.Run.ID, st.Run.Owner
		st.Events = append(st.Events, e)
	}
}

// audit keeps rows until the shared workflow has them, which chains them to all others.
func (st *state) audit(rows ...core.AuditRow) {
	for _, row := range rows {
		row.At = row.At.UTC()
		st.Audit = append(st.Audit, row)
	}
}
