package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// TestCommit_LostConnection cuts the connection before a step arrives, and after
// it was committed and before the answer arrives: it is kept once.
func TestCommit_LostConnection(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	for _, when := range []string{"Before", "After"} {
		for name, change := range map[string]func(*store.Step){
			"Short":  func(*store.Step) {},
			"Create": func(st *store.Step) { st.Run, st.Create = newRun("r"), true },
			"Long":   func(st *store.Step) { st.Open = []core.Approval{newApproval(st.Run.ID)} },
			"Bare":   func(st *store.Step) { st.Records = nil },
			"Keyed": func(st *store.Step) {
				st.Run, st.Create = newRun("r"), true
				st.Run.IdempotencyKey = string(newID())
			},
		} {
			run := newRun("r")
			if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
				t.Fatal(err)
			}
			step := store.Step{Run: run, Records: []core.Record{newRecord(1)}, Events: []core.Event{{Type: core.EventTaskComplete}}}
			change(&step)
			before := p.happened()
			p.set(func() { p.onRequest, p.onAnswer = when == "Before", when == "After" })
			if err := s.Commit(t.Context(), step); err != nil {
				t.Fatalf("%s %s: %v", name, when, err)
			}
			if p.happened() != before+1 {
				t.Fatalf("%s %s: nothing was cut", name, when)
			}
			got, err := s.Run(t.Context(), step.Run.ID)
			es, err2 := s.Events(t.Context(), store.EventFilter{RunID: step.Run.ID})
			if err != nil || err2 != nil || got.JournalSeq != int64(len(step.Records)) || len(es) != 1 {
				t.Errorf("%s %s: journal at %d, %d events, %v, %v", name, when, got.JournalSeq, len(es), err, err2)
			}
		}
	}
}

// TestDecide_LostConnection: a decision whose answer was lost is made once.
func TestDecide_LostConnection(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	run := newRun("r")
	a, b := newApproval(run.ID), newApproval(run.ID)
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Open: []core.Approval{a, b}}); err != nil {
		t.Fatal(err)
	}
	for id, cut := range map[core.ID]*bool{a.ID: &p.onAnswer, b.ID: &p.onRequest} {
		p.set(func() { *cut = true })
		got, err := s.Decide(t.Context(), core.Decision{ApprovalID: id, Approved: true, By: run.RequestedBy}, store.Renewal{})
		if err != nil || got.State != core.ApprovalApproved {
			t.Errorf("%s, %v", got.State, err)
		}
	}
	rows, err := s.Audit(t.Context(), store.AuditFilter{})
	if bad, why := approval.Verify(rows); err != nil || len(rows) != 2 || bad != 0 {
		t.Errorf("%d rows, %s, %v", len(rows), why, err)
	}
}

// TestCommit_Outage: while the database cannot be reached nothing is lost, and
// afterwards everything goes on by itself.
func TestCommit_Outage(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	const writers, steps = 6, 20
	half := make(chan struct{}, writers*steps)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			run := newRun("r")
			if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
				t.Error(err)
				return
			}
			for n := range steps {
				step := layerStep(run, int64(n), 1)
				if n%5 == 0 {
					step.Open = []core.Approval{newApproval(run.ID)}
				}
				if err := s.Commit(t.Context(), step); err != nil {
					t.Error(err)
					return
				}
				half <- struct{}{}
			}
		})
	}
	for round := range 5 {
		for range writers * 2 {
			<-half
		}
		p.set(func() { p.down = true })
		if round%2 == 0 {
			p.set(func() { p.onAnswer = true })
		}
		p.set(func() { p.down = false })
	}
	wg.Wait()
	es, err := s.Events(t.Context(), store.EventFilter{})
	if err != nil || len(es) != writers*steps {
		t.Fatalf("%d events, %v", len(es), err)
	}
	seen := map[string]bool{}
	for i, e := range es {
		key := fmt.Sprint(e.RunID, e.TaskID)
		if e.Seq != int64(i+1) || seen[key] {
			t.Errorf("event %d has number %d, or is there twice", i+1, e.Seq)
		}
		seen[key] = true
	}
}

// TestCommit_Patience: at last it is given up, and said so.
func TestCommit_Patience(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	run := newRun("r")
	if err := open(t, address, wall{}).Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	s := open(t, address, wall{}, func(o *postgres.Options) { o.Patience = 100 * time.Millisecond })
	p.set(func() { p.down = true })
	for _, step := range []store.Step{layerStep(run, 0, 1), {Run: run, Open: []core.Approval{newApproval(run.ID)}}} {
		if err := s.Commit(t.Context(), step); core.CodeOf(err) != core.CodeStoreFailed {
			t.Errorf("%v", err)
		}
	}
	p.set(func() { p.down = false })
	err := s.Commit(t.Context(), store.Step{Run: run})
	// On a busy machine 100 ms can be too short for what nothing hinders.
	for tries := 0; core.CodeOf(err) == core.CodeStoreFailed && tries < 100; tries++ {
		err = s.Commit(t.Context(), store.Step{Run: run})
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCommit_LateDuplicate: what was sent once more than needed, and arrives when
// the run has long gone on, is not applied.
func TestCommit_LateDuplicate(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), wall{})
	run := newRun("r")
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	waiting := run
	waiting.State = core.RunWaiting
	send, err := s.Packet(store.Step{Run: waiting, Events: []core.Event{{Type: core.EventTaskLog}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if kept, err := send(t.Context()); kept != want || err != nil {
			t.Errorf("sent for the %d. time: %v, %v", i+1, kept, err)
		}
		if i == 1 {
			if err := s.Commit(t.Context(), store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskStart}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	es, err := s.Events(t.Context(), store.EventFilter{RunID: run.ID})
	if got, err := s.Run(t.Context(), run.ID); err != nil || got.State != core.RunRunning {
		t.Errorf("the run is %s, %v", got.State, err)
	}
	if err != nil || len(es) != 2 {
		t.Errorf("%d events, %v", len(es), err)
	}
}

// TestCommit_Large: while a large step is under way the steps of others are
// committed, also when it waits for the audit log.
func TestCommit_Large(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	large, small := newRun("r"), newRun("r")
	for _, run := range []core.Run{large, small} {
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
			t.Fatal(err)
		}
	}
	rec := newRecord(1)
	rec.Result = []byte(`"held back` + strings.Repeat("x", 2<<20) + `"`)
	holding, release := p.holdBack("held back")
	done := make(chan error, 1)
	go func() {
		done <- s.Commit(t.Context(), store.Step{Run: large, Records: []core.Record{rec},
			Audit: []core.AuditRow{{At: time.Now(), Tool: "fs:write", Outcome: core.ApprovalDenied}}})
	}()
	<-holding
	if err := s.Commit(t.Context(), layerStep(small, 0, 1)); err != nil {
		t.Error(err)
	}
	if err := s.Record(t.Context(), core.AuditRow{Tool: "fs:read", Outcome: core.ApprovalDenied}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Errorf("the large step was not under way: %v", err)
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := s.Journal(t.Context(), large.ID, 0); err != nil || len(got) != 1 || len(got[0].Result) != len(rec.Result) {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// TestCommit_Sizes: what goes in one statement is bounded in bytes, and what is
// large goes beside it.
func TestCommit_Sizes(t *testing.T) {
	t.Parallel()
	const kb = 1 << 10
	together, beside := postgres.Take(200*kb, 8<<20, 200*kb, 250*kb, 250*kb, 250*kb, 300*kb, 1*kb)
	if diff := cmp.Diff([]int{200 * kb, 200 * kb, 250 * kb, 250 * kb, 1 * kb}, together); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{8 << 20, 300 * kb}, beside); diff != "" {
		t.Error(diff)
	}
}

// TestCommit_Stuck: a step that does not get through keeps no others waiting
// for longer than one try, and is kept once when it does.
func TestCommit_Stuck(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	stuck, other := newRun("r"), newRun("r")
	for _, run := range []core.Run{stuck, other} {
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
			t.Fatal(err)
		}
	}
	holding, release := p.holdBack("held back")
	done := make(chan error, 1)
	go func() {
		done <- s.Commit(t.Context(), store.Step{Run: stuck, Events: []core.Event{{Type: core.EventTaskLog, Message: "held back"}}})
	}()
	<-holding
	if err := s.Commit(t.Context(), layerStep(other, 0, 1)); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Errorf("the step was not stuck: %v", err)
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if es, err := s.Events(t.Context(), store.EventFilter{RunID: stuck.ID}); err != nil || len(es) != 1 {
		t.Errorf("%d events, %v", len(es), err)
	}
}

// TestUpdate_RollbackHangs: whoever asked for something that is refused does not
// wait for a connection that answers no more.
func TestUpdate_RollbackHangs(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	p.holdBack("ROLLBACK")
	done := make(chan error, 1)
	go func() {
		_, err := s.RequestAbort(t.Context(), newID(), core.AbortRequest{})
		done <- err
	}()
	select {
	case err := <-done:
		if core.CodeOf(err) != core.CodeNotFound {
			t.Error(err)
		}
	case <-time.After(hung):
		t.Error("it hangs")
	}
}

// TestDecide_OneConnectionHangs: a decision whose connection answers no more is made
// on another, within the time that it has altogether.
func TestDecide_OneConnectionHangs(t *testing.T) {
	t.Parallel()
	p, address := through(t, database(t))
	s := open(t, address, wall{})
	_, a, _ := asking(t, s)
	if err := s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved}); err != nil {
		t.Fatal(err)
	}
	p.holdBack("asked AS")
	type outcome struct {
		a   core.Approval
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		got, err := s.Decide(t.Context(), yes(a), store.Renewal{})
		done <- outcome{got, err}
	}()
	select {
	case got := <-done:
		if got.err != nil || got.a.State != core.ApprovalApproved {
			t.Errorf("%s, %v", got.a.State, got.err)
		}
	case <-time.After(hung):
		t.Error("it hangs")
	}
}

// TestOpen_Settings: the database notices by itself that a machine is gone.
func TestOpen_Settings(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), wall{})
	for name, want := range map[string]string{
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "idle_in_transaction_session_timeout": "10s",
	} {
		got, err := s.Setting(t.Context(), name)
		if err != nil || got != want && got != "0" { // 0: a socket that is not of TCP, or a system without it
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
