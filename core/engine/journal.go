package engine

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// journal is what is known of a run from before: it answers the calls of a
// program that starts over.
type journal struct {
	// settled are the outcomes in order of delivery; at is the next to deliver.
	settled []core.Record
	next    int
	byCall  map[string]int // call id → index in settled
	// begun are calls that were started and have no outcome, or none that says what
	// became of them, with their newest started record, and those that a retry
	// makes again; parked is since when those wait that stopped at a gate.
	begun  map[string]core.Record
	parked map[string]time.Time
	// released are the layers that were handed to the program as a whole.
	released map[int]core.Record
	// retried is when outcomes were last taken back: a denial from before that is
	// no answer any more.
	retried time.Time
}

func newJournal(records []core.Record) journal {
	j := journal{byCall: map[string]int{}, begun: map[string]core.Record{}, parked: map[string]time.Time{}, released: map[int]core.Record{}}
	void := map[string]int64{}
	for _, r := range records {
		if r.Kind == core.RecordVoid {
			void[r.CallID] = r.Seq
			if r.Error == nil && r.At.After(j.retried) { // not an attempt that failed
				j.retried = r.At
			}
		}
	}
	unknown := doubts{}
	for _, r := range records {
		unknown.add(r)
		if r.Kind != core.RecordLayer && r.Seq < void[r.CallID] {
			continue
		}
		switch r.Kind {
		case core.RecordStarted:
			j.begun[r.CallID] = r
		case core.RecordParked:
			j.parked[r.CallID] = r.At
		case core.RecordSettled:
			j.byCall[r.CallID] = len(j.settled)
			j.settled = append(j.settled, r)
			delete(j.begun, r.CallID)
		case core.RecordLayer:
			j.released[r.Layer] = r
		case core.RecordVoid:
			// A retry is a further attempt of the same call, after a question when
			// nobody knows what became of the one before.
			begun, ok := unknown.open(r.CallID)
			if !ok {
				begun = core.Record{CallID: r.CallID, Attempt: r.Attempt, Kind: core.RecordVoid}
			}
			j.begun[r.CallID] = begun
		}
	}
	return j
}

// load reads what is kept of the run.
func (a *actor) load(ctx context.Context) error {
	records, err := a.store.Journal(ctx, a.run.ID, 0)
	if err != nil {
		return err
	}
	a.journal = newJournal(records)
	if n := len(records); n > 0 {
		a.run.JournalSeq = records[n-1].Seq
	}
	return a.loadConsole(ctx)
}

// loadConsole counts the console lines that were told before this process.
func (a *actor) loadConsole(ctx context.Context) error {
	p, ok := a.prog.(*codeProgram)
	if !ok || p.told > 0 {
		return nil
	}
	events, err := a.store.Events(ctx, store.EventFilter{RunID: a.run.ID, Types: []core.EventType{core.EventTaskLog}})
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.TaskID == "" && e.Tool == "" {
			p.told++
		}
	}
	return nil
}

// restart makes the program begin anew with all that is journaled. Nothing may
// be running.
func (a *actor) restart(ctx context.Context) error {
	a.prog.close()
	a.reset()
	return a.load(ctx)
}

// record appends a journal record to the next commit.
func (a *actor) record(r core.Record) int64 {
	a.run.JournalSeq++
	r.Seq = a.run.JournalSeq
	if r.At.IsZero() {
		r.At = a.now()
	}
	a.step.Records = append(a.step.Records, r)
	return r.Seq
}

// callRecord is a record about a call.
func callRecord(kind core.RecordKind, c *call) core.Record {
	return core.Record{
		Kind: kind, CallID: c.id, Tool: c.tool, Layer: c.layer, Attempt: c.attempt,
		ArgsDigest: c.digest, Args: c.args, StartedAt: c.startAt,
	}
}

// replay answers a call from the journal; ok is false when it is not there.
func (a *actor) replay(c *call) (ok bool, err error) {
	i, ok := a.journal.byCall[c.id]
	if !ok {
		if r, begun := a.journal.begun[c.id]; begun {
			c.attempt = r.Attempt
			if r.Kind == core.RecordStarted {
				c.started, c.before, c.why = true, r.StartedAt, r.Error
				if c.before.IsZero() {
					c.before = r.At
				}
				return false, matches(r, c)
			}
		}
		c.parkedAt = a.journal.parked[c.id]
		return false, nil
	}
	r := a.journal.settled[i]
	if err := matches(r, c); err != nil {
		return false, err
	}
	// The layer is the journaled one: it is never computed again.
	c.layer, c.attempt, c.seq = r.Layer, r.Attempt, r.Seq
	c.outcome, c.value, c.err = r.Outcome, r.Result, r.Error
	c.startAt, c.settleAt = r.StartedAt, r.At
	a.move(c, callSettled)
	a.replayed++
	return true, nil
}

// matches refuses a call that is not the one in the journal.
func matches(r core.Record, c *call) error {
	if r.Tool == c.tool && (r.ArgsDigest == c.digest || r.ArgsDigest == "") {
		return nil
	}
	return core.Errorf(core.CodeReplay, "replay went another way: call %s was %s with arguments %s, now it is %s with arguments %s; the journal is kept, nothing was called",
		c.id, r.Tool, shown(r.Args), c.tool, shown(c.args))
}

func shown(args []byte) string { return core.Visible(string(args), 200, false) }

// deliverable returns the outcomes that the program may learn now, in the
// order in which it must learn them.
func (a *actor) deliverable() ([]delivery, error) {
	if a.layers.barrier {
		return a.releasable(), nil
	}
	var out []delivery
	for a.journal.next < len(a.journal.settled) {
		r := a.journal.settled[a.journal.next]
		c := a.calls[r.CallID]
		if c == nil || c.state != callSettled {
			break
		}
		a.journal.next++
		out = append(out, a.delivery(c, c.settleAt))
	}
	return out, nil
}

func (a *actor) delivery(c *call, at time.Time) delivery {
	a.move(c, callDelivered)
	a.layers.deliver(c)
	return delivery{seq: c.seq, call: c, outcome: c.outcome, value: c.value, err: c.err, at: at}
}

// settle gives a call its outcome and journals it.
func (a *actor) settle(c *call, outcome core.Outcome, value []byte, err *core.Error) {
	c.outcome, c.value, c.err = outcome, value, err
	c.settleAt = a.now()
	a.move(c, callSettled)
	c.started = false
	r := callRecord(core.RecordSettled, c)
	r.Outcome, r.Result, r.Error, r.At = outcome, value, err, c.settleAt
	c.seq = a.record(r)
	r.Seq = c.seq
	a.journal.byCall[c.id] = len(a.journal.settled)
	a.journal.settled = append(a.journal.settled, r)
	a.settledEvent(c, r)
}

// flush commits what waits, even when it is events only.
func (a *actor) flush() error {
	// What happened is kept even when the engine is told to stop meanwhile.
	ctx := a.eng.last
	if err := a.rehome(ctx); err != nil {
		return err
	}
	a.run.UpdatedAt = a.now()
	a.step.Run = a.run
	step := a.step
	// The next turn is probably like this one.
	a.step = store.Step{
		Records: make([]core.Record, 0, len(step.Records)), Events: make([]core.Event, 0, len(step.Events)),
	}
	if err := a.store.commit(ctx, step); err != nil {
		return err
	}
	a.publish(step.Events)
	return nil
}

// commit commits what the turn made, if anything of it must be kept before the
// run goes on. Events alone wait a little for company.
func (a *actor) commit() error {
	s := &a.step
	must := len(s.Records)+len(s.Open)+len(s.Supersede)+len(s.Used)+len(s.Audit) > 0 || s.Checkpoint != nil ||
		a.run.State != a.handle.stateNow()
	if !must {
		return nil
	}
	return a.flush()
}

func (h *Handle) stateNow() core.RunState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.Run.State
}
