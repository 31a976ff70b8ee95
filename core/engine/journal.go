package engine

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// journal is the state that replay needs, computed from a run's records (see
// core.RecordKind for who writes each kind and what it means here). It answers the
// calls of a program that starts over.
type journal struct {
	// settled are the outcomes in order of delivery; at is the next to deliver.
	settled []core.Record
	next    int
	byCall  map[string]int // call id → index in settled
	// begun has the calls without an outcome that were started, by their newest
	// started record, and those that a retry repeats: by the started record if it is
	// in doubt whether the call ran, else by a void record that has the attempt.
	// parked has the newest parked record of each call that stopped at a gate.
	begun  map[string]core.Record
	parked map[string]core.Record
	// passed has the newest record of each call that met hook flows, also of one that
	// is to be made again: they do not run a second time for it.
	passed map[string]core.Record
	// released has the record of each layer whose outcomes were delivered together.
	released map[int]core.Record
	// failures counts the attempts of each call that have failed and were followed by
	// another.
	failures map[string]int
	// retried is the time of the last retry by a person: a denial from before it
	// does not count any more.
	retried time.Time
}

func newJournal(records []core.Record) journal {
	j := journal{byCall: map[string]int{}, begun: map[string]core.Record{}, parked: map[string]core.Record{}, passed: map[string]core.Record{}, released: map[int]core.Record{}, failures: map[string]int{}}
	void := map[string]int64{}
	for _, r := range records {
		if r.Kind == core.RecordVoid {
			void[r.CallID] = r.Seq
			if r.Error != nil {
				j.failures[r.CallID]++
			}
			// Only a retry by a person; core.RecordVoid lists the cases.
			if r.Error == nil && r.ArgsDigest == "" && r.At.After(j.retried) {
				j.retried = r.At
			}
		}
	}
	unknown := doubts{}
	for _, r := range records {
		unknown.add(r)
		if r.Passage != nil {
			j.passed[r.CallID] = r
		}
		if r.Kind != core.RecordLayer && r.Seq < void[r.CallID] {
			continue
		}
		switch r.Kind {
		case core.RecordStarted:
			j.begun[r.CallID] = r
		case core.RecordParked:
			j.parked[r.CallID] = r
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

// untouched reports whether nothing is journaled of any call.
func (j *journal) untouched() bool { return len(j.settled)+len(j.begun)+len(j.parked) == 0 }

// load reads what is kept of the run.
func (a *actor) load(ctx context.Context) error {
	records, err := a.store.Journal(ctx, a.run.ID, 0)
	if err != nil {
		return err
	}
	a.journal = newJournal(records)
	if p, ok := a.driver.program.(*codeProgram); ok {
		p.retried = a.journal.retried
	}
	if n := len(records); n > 0 {
		a.run.JournalSeq = records[n-1].Seq
	}
	return a.loadConsole(ctx)
}

// loadConsole counts the console lines that an earlier process has journaled.
func (a *actor) loadConsole(ctx context.Context) error {
	p, ok := a.driver.program.(*codeProgram)
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
	a.driver.program.close()
	a.reset()
	return a.load(ctx)
}

// settle takes up an outcome that has just been recorded.
func (j *journal) settle(r core.Record) {
	j.byCall[r.CallID] = len(j.settled)
	j.settled = append(j.settled, r)
}

// deliverable returns the outcomes that the program may learn now, in the
// order in which it must learn them.
func (a *actor) deliverable() []delivery {
	if a.layers.barrier {
		return a.layers.releasable()
	}
	var out []delivery
	for a.journal.next < len(a.journal.settled) {
		r := a.journal.settled[a.journal.next]
		c := a.calls.byID[r.CallID]
		if c == nil || c.state != callSettled {
			break
		}
		a.journal.next++
		out = append(out, a.calls.deliver(c, c.settleAt))
	}
	return out
}
