package temporal_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
)

// effectsOfRun are the calls that each run of TestKilled makes.
var effectsOfRun = []string{`a:ask{"id":"t3"}`, `a:ask{"id":"t5"}`, `a:write{"id":"t1"}`, `a:write{"id":"t2"}`, `a:write{"id":"t4"}`, `a:write{"id":"t6"}`}

// theRun is an order to start one, as a graph or as a script.
func theRun(id core.ID, script bool) order {
	if script {
		return order{Do: "start", Run: id, Source: `const w = (id: string) => mcp.a.write({id});
			await w("t1"); await Promise.all([w("t2"), mcp.a.ask({id: "t3"})]); await w("t4"); await mcp.a.ask({id: "t5"}); await w("t6"); return 6;`}
	}
	return order{Do: "start", Run: id, Program: core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{
		enginetest.Task("t1", "a:write"), enginetest.Task("t2", "a:write"), enginetest.Task("t3", "a:ask", "t1", "t2"),
		enginetest.Task("t4", "a:write", "t3"), enginetest.Task("t5", "a:ask", "t4"), enginetest.Task("t6", "a:write", "t5"),
	}}}
}

// atOnce is how many runs are under way while processes are killed.
const atOnce = 12

// TestKilled kills workers and the server of Temporal at random moments, while runs go on,
// wait and are decided. All complete, each call has its effect once, and what was said to be
// decided stays so. PML_TEST_TEMPORAL_KILLS and PML_TEST_TEMPORAL_SERVER_KILLS say how many.
func TestKilled(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "kills processes again and again")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killing{crew: newCrew(t, 3), random: rand.New(rand.NewPCG(seed, 1)), over: make(chan struct{})}
	began := time.Now()
	go k.kill(number(t, "PML_TEST_TEMPORAL_KILLS", 10), number(t, "PML_TEST_TEMPORAL_SERVER_KILLS", 2))
	var wg sync.WaitGroup
	for i := range atOnce {
		wg.Go(func() { k.client(i) })
	}
	wg.Wait()
	<-k.over
	k.check()
	t.Logf("%d workers and %d servers killed in %s: %d runs, %d times one was begun already, %d decisions, %d calls in doubt, of which %d had run",
		k.workers, k.servers, time.Since(began).Round(time.Second), len(k.runs), k.again, k.decisions, k.doubts, k.hadRun)
	if t.Failed() {
		for _, m := range k.members {
			t.Logf("%s:\n%s", m.name, k.tail(m.name))
		}
	}
}

// watched is a run as a client knows it.
type watched struct {
	id      core.ID
	ended   bool
	last    reply                     // what was seen last of it
	err     error                     // or of the last look
	decided map[core.ID]core.Decision // what was answered as kept
}

// killing is one TestKilled.
type killing struct {
	*crew
	over chan struct{} // closed after the last kill

	mu                sync.Mutex
	random            *rand.Rand
	runs              []*watched
	workers, servers  int
	decisions, doubts int
	hadRun, again     int
	overAt            time.Time
}

func (k *killing) intn(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.random.IntN(n)
}

// kill kills one process after the other; what is killed starts again.
func (k *killing) kill(workers, servers int) {
	defer close(k.over)
	var wg sync.WaitGroup
	for k.workers < workers || k.servers < servers {
		pause(time.Duration(500+k.intn(5000)) * time.Millisecond)
		if left := max(0, workers-k.workers); k.intn(left+servers-k.servers) >= left {
			k.killServer()
			pause(time.Duration(k.intn(3000)) * time.Millisecond) // longer than a heartbeat, or not
			k.startServer()
			k.servers++
			continue
		}
		n := 1
		if k.intn(10) == 0 { // all of them
			n = len(k.members)
		}
		first := k.intn(len(k.members))
		for i := range n {
			m := k.members[(first+i)%len(k.members)]
			if !m.kill() { // it has not started again yet
				continue
			}
			k.workers++
			rest := time.Duration(k.intn(1000)) * time.Millisecond
			wg.Go(func() {
				pause(rest)
				m.start()
			})
		}
	}
	wg.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.overAt = time.Now()
}

// client asks for one run after the other, and answers what it asks, until nobody is killed
// any more.
func (k *killing) client(n int) {
	for {
		run := &watched{id: enginetest.NewID(), decided: map[core.ID]core.Decision{}}
		k.mu.Lock()
		k.runs = append(k.runs, run)
		k.mu.Unlock()
		o := theRun(run.id, n%4 == 0)
		if n%2 == 0 {
			o.Key = string(run.id)
		}
		run.id = k.start(o)
		for !run.ended {
			if k.late() {
				k.t.Errorf("the run %s does not end; it is %s of %s with %v, %v", run.id, run.last.Run.State, run.last.Run.Runner, run.last.Approvals, run.err)
				return
			}
			k.answer(run)
			pause(50 * time.Millisecond)
		}
		select {
		case <-k.over:
			return
		default:
		}
	}
}

// late reports whether a run should have ended: as long as processes are killed it may not get
// on.
func (k *killing) late() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.overAt.IsZero() && time.Since(k.overAt) > enginetest.Hung
}

// any is a worker, whichever.
func (k *killing) any() *member { return k.members[k.intn(len(k.members))] }

// patience is how long a client waits for an answer before it asks another worker.
const patience = 20 * time.Second

// start asks for a run until it is there: it may be there although nobody has said so. With a key
// two workers are asked at once, each for a run of its own, of which one is begun; start says which.
func (k *killing) start(o order) core.ID {
	for ; !k.late(); pause(50 * time.Millisecond) {
		tries := []order{o}
		if o.Key != "" {
			tries = append(tries, o)
			tries[0].Run, tries[1].Run = enginetest.NewID(), enginetest.NewID()
		}
		ids := make([]core.ID, len(tries))
		var wg sync.WaitGroup
		for i := range tries {
			wg.Go(func() { ids[i] = k.begin(tries[i]) })
		}
		wg.Wait()
		ids = slices.DeleteFunc(ids, func(id core.ID) bool { return id == "" })
		if len(ids) == 2 && ids[0] != ids[1] {
			k.t.Errorf("two runs have one key: %v", ids)
		}
		if len(ids) > 0 {
			return ids[0]
		}
	}
	k.t.Errorf("the run %s does not start", o.Run)
	return o.Run
}

// begin asks for a run once, and returns the one that is there now; nothing if nobody says so.
func (k *killing) begin(o order) core.ID {
	_, err := k.any().ask(o, patience)
	switch {
	case err == nil:
		return o.Run
	case core.CodeOf(err) == core.CodeDuplicate:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.again++
		return core.AsError(err).RunID
	}
	return ""
}

// answer looks at a run, and decides as a person does who can see what has happened.
func (k *killing) answer(run *watched) {
	r, err := k.any().ask(order{Do: "look", Run: run.id}, patience)
	if run.err = err; err != nil {
		return
	}
	run.last = r
	if run.ended = r.Run.State.Final(); run.ended {
		k.ended(run, r)
		return
	}
	for _, a := range r.Approvals {
		if a.State != core.ApprovalOpen {
			continue
		}
		d := core.Decision{ApprovalID: a.ID, Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now().UTC(), ExpectDigest: a.Digest}
		if a.Type == core.ApproveInDoubt {
			d.Answer = k.truth(run, a)
		}
		for !k.late() { // the same again, until somebody says that it is kept
			_, err := k.any().ask(order{Do: "decide", Run: run.id, Decision: &d}, patience)
			if err == nil {
				run.decided[a.ID] = d
				break
			}
			if core.CodeOf(err) == core.CodeNotWaiting { // whoever has taken the run over asks something else
				return
			}
			if core.CodeOf(err) == core.CodeAlreadyDecided {
				k.t.Errorf("the run %s: a decision that nobody else has made is refused: %v", run.id, err)
				return
			}
			pause(50 * time.Millisecond)
		}
	}
}

// truth is whether a call in doubt has had its effect.
func (k *killing) truth(run *watched, a core.Approval) *core.Answer {
	var about struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(a.Context, &about); err != nil {
		k.t.Error(err)
	}
	had := slices.ContainsFunc(k.effects(), func(e effect) bool { return e.Run == run.id && e.Call == about.Tool+string(about.Arguments) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubts++
	if !had {
		return &core.Answer{InDoubt: core.RunAgain}
	}
	k.hadRun++
	return &core.Answer{InDoubt: core.SkipResult, Result: about.Arguments}
}

// ended checks a run that has ended: nothing that was decided is lost.
func (k *killing) ended(run *watched, r reply) {
	if r.Run.State != core.RunComplete {
		k.t.Errorf("the run %s is %s: %v", run.id, r.Run.State, r.Run.Error)
	}
	for id, d := range run.decided {
		i := slices.IndexFunc(r.Approvals, func(a core.Approval) bool { return a.ID == id })
		if i < 0 || r.Approvals[i].State != core.ApprovalApproved || !r.Approvals[i].Used || d.Answer != nil && r.Approvals[i].Answer.InDoubt != d.Answer.InDoubt {
			k.t.Errorf("the run %s: the decision about %s is lost", run.id, id)
		}
	}
	k.mu.Lock()
	k.decisions += len(run.decided)
	k.mu.Unlock()
}

// check compares what the world has seen with what it should have.
func (k *killing) check() {
	seen := map[core.ID][]string{}
	for _, e := range k.effects() {
		seen[e.Run] = append(seen[e.Run], e.Call)
	}
	lost, twice := 0, 0
	for _, run := range k.runs {
		counts := map[string]int{}
		for _, c := range seen[run.id] {
			counts[c]++
		}
		for _, want := range effectsOfRun {
			if n := counts[want]; n != 1 {
				k.t.Errorf("the run %s has made %s %d times", run.id, want, n)
				if n == 0 {
					lost++
				} else {
					twice++
				}
			}
			delete(counts, want)
		}
		if len(counts) > 0 {
			k.t.Errorf("the run %s has made %v", run.id, counts)
		}
		delete(seen, run.id)
	}
	if len(seen) > 0 {
		k.t.Errorf("effects of runs that nobody asked for: %v", seen)
	}
	k.t.Logf("%d calls lost, %d made twice", lost, twice)
}
