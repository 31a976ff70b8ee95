package storetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

const (
	stormRuns     = 32
	stormSteps    = 12
	stormDeciders = 3
)

// storm is many writers on many runs at once.
type storm struct {
	*kit
	stores []store.Store
	wins   []atomic.Int32 // of the decision of each run
	events atomic.Int64   // how many must be there in the end
}

// testStorm lets many runners, deciders and a reader work at once, by two
// stores where there can be two, and then checks what must hold.
func testStorm(k *kit) {
	s := &storm{kit: k, stores: []store.Store{k.Store, k.another()}, wins: make([]atomic.Int32, stormRuns)}
	stop, seen := make(chan struct{}), make(chan int64, 1)
	go s.follow(stop, seen)
	var wg sync.WaitGroup
	for i := range stormRuns {
		wg.Go(func() { s.run(i) })
	}
	wg.Wait()
	close(stop)
	if n := <-seen; n != s.events.Load() {
		k.t.Errorf("the reader has seen %d events, %d were written", n, s.events.Load())
	}
	if !k.t.Failed() {
		s.check()
	}
}

func stormID(kind, i int) core.ID { return core.ID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, kind)) }

// run is the life of one run: steps, a question that several answer at once,
// a claim that fences the old epoch off, the end.
func (s *storm) run(i int) {
	st, id := s.stores[i%2], stormID(1, i)
	header := s.kit.runAs(id)
	s.do(st, store.Step{Run: header, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}}, 0)
	for n := range stormSteps {
		step := store.Step{Run: header, Records: []core.Record{record(int64(n+1), fmt.Sprintf("c%d", n))},
			Events: []core.Event{{Type: core.EventTaskStart, TaskID: strconv.Itoa(n)}, {Type: core.EventTaskComplete, TaskID: strconv.Itoa(n)}}}
		if n%2 == 0 {
			step.Checkpoint = &core.Checkpoint{ID: stormID(100+n, i), RunID: id, Layer: n, DAGVersion: 1, JournalSeq: int64(n + 1), CreatedAt: s.now()}
		}
		s.do(st, step, 2)
		if n == stormSteps/2 {
			header = s.ask(st, header, i)
		}
	}
	header.State, header.EndedAt = core.RunComplete, s.in(0)
	s.do(st, store.Step{Run: header, Events: []core.Event{{Type: core.EventWorkflowComplete}}}, 1)
}

func (s *storm) do(st store.Store, step store.Step, events int64) {
	if err := st.Commit(s.ctx(), step); err != nil {
		s.t.Errorf("run %s: %v", step.Run.ID, err)
	}
	s.events.Add(events)
}

// ask opens an approval, has it decided, and takes the run over.
func (s *storm) ask(st store.Store, header core.Run, i int) core.Run {
	a := s.kit.approvalAs(stormID(2, i), header.ID)
	header.State = core.RunWaiting
	s.do(st, store.Step{Run: header, Open: []core.Approval{a}, Events: []core.Event{{Type: core.EventApprovalRequested, ApprovalID: a.ID}}}, 1)
	var wg sync.WaitGroup
	for d := range stormDeciders {
		wg.Go(func() {
			decision := core.Decision{ApprovalID: a.ID, Approved: true, By: human, At: s.now(),
				Answer: &core.Answer{Result: json.RawMessage(strconv.Itoa(d))}}
			switch _, err := s.stores[d%2].Decide(s.ctx(), decision, store.Renewal{}); core.CodeOf(err) {
			case "":
				s.wins[i].Add(1)
			case core.CodeAlreadyDecided:
			default:
				s.t.Errorf("decider %d: %v", d, err)
			}
		})
	}
	wg.Wait()
	s.events.Add(1)
	old := header
	taken, err := s.stores[(i+1)%2].Claim(s.ctx(), header.ID, fmt.Sprintf("next-%d", i))
	if err != nil {
		s.t.Errorf("claim: %v", err)
		return header
	}
	if err := st.Commit(s.ctx(), store.Step{Run: old, Events: []core.Event{{Type: core.EventTaskLog}}}); core.CodeOf(err) != core.CodeFenced {
		s.t.Errorf("the old epoch: %v", err)
	}
	taken.State = core.RunRunning
	s.do(st, store.Step{Run: taken, Used: []store.Use{{Approval: a.ID}}}, 0)
	return taken
}

// follow reads events as they come: each once, in order, none left out.
func (s *storm) follow(stop <-chan struct{}, seen chan<- int64) {
	last := int64(0)
	defer func() { seen <- last }()
	wake, err := s.stores[1].Watch(s.ctx())
	if err != nil {
		s.t.Error(err)
		return
	}
	for done := false; ; {
		es, err := s.stores[1].Events(s.ctx(), store.EventFilter{After: last})
		if err != nil {
			s.t.Error(err)
			return
		}
		for _, e := range es {
			if e.Seq != last+1 {
				s.t.Errorf("after event %d comes %d", last, e.Seq)
				return
			}
			last = e.Seq
		}
		if done {
			return
		}
		select {
		case <-wake:
		case <-stop:
			done = true // one more look
		}
	}
}

func (s *storm) check() {
	rows := s.audit()
	if bad, reason := approval.Verify(rows); bad != 0 || len(rows) != stormRuns {
		s.t.Errorf("%d audit rows, bad %d: %s", len(rows), bad, reason)
	}
	for i := range stormRuns {
		id := stormID(1, i)
		if n := s.wins[i].Load(); n != 1 {
			s.t.Errorf("run %d: %d deciders won", i, n)
		}
		got := s.get(id)
		if got.State != core.RunComplete || got.JournalSeq != stormSteps || got.Epoch != 2 {
			s.t.Errorf("run %d: %s, journal at %d, epoch %d", i, got.State, got.JournalSeq, got.Epoch)
		}
		records, err := s.Store.Journal(s.ctx(), id, 0)
		if err != nil || len(records) != stormSteps {
			s.t.Errorf("run %d: %d records, %v", i, len(records), err)
		}
		for n, r := range records {
			if r.Seq != int64(n+1) || r.CallID != fmt.Sprintf("c%d", n) {
				s.t.Errorf("run %d: record %d is %d of %s", i, n+1, r.Seq, r.CallID)
			}
		}
		cps, err := s.Store.Checkpoints(s.ctx(), id)
		if err != nil || len(cps) != 5 || cps[4].Layer != stormSteps-2 {
			s.t.Errorf("run %d: checkpoints %+v, %v", i, cps, err)
		}
		if as, err := s.Store.Approvals(s.ctx(), store.ApprovalFilter{RunID: id}); err != nil || len(as) != 1 || !as[0].Used {
			s.t.Errorf("run %d: approvals %+v, %v", i, as, err)
		}
	}
	s.wantOrphans("me", 0)
}
