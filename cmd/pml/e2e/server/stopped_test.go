//go:build unix

package server_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

var stops = flag.Int("stops", 4, "how often TestServer_Stopped stops a server")

// The runs of one round, and the calls with a side effect that each makes.
const (
	stoppedRuns  = 8
	stoppedCalls = 60
)

// TestServer_Stopped stops a server (SIGSTOP) at random moments while it runs many
// workflows, for longer than its lease, until another server on the same database has
// taken them over, and lets it go on (SIGCONT). Calls whose start it had committed, and
// not sent yet, it must not send any more: each call is made once.
//
//	PML_TEST_REQUIRE=all go test ./cmd/pml/e2e/server -run Server_Stopped -v -args -stops 40 -seed 7
func TestServer_Stopped(t *testing.T) {
	skiptest.Long(t, "stops a server for longer than its lease of 10 s, again and again")
	t.Parallel()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-stops %d -seed %d", *stops, s)
	r := rand.New(rand.NewPCG(s, 0))
	c := pmltest.AllowRec()
	c.Limits = map[string]any{"per_server": 1} // at any moment most runs have a call that is begun and not sent
	m, with := onStore(t, "postgres", c)
	b := besideOf(m, "other")
	first, second := m.Node(with...), b.Node(with...)
	a := &answers{n: second, asked: map[string]core.InDoubtAnswer{}}
	for round := range *stops {
		stopped := stopRound{first: first, second: second, answers: a, name: fmt.Sprint("r", round)}
		stopped.begin()
		at := 1 + r.IntN(stoppedRuns*stoppedCalls/2)
		within(t, pmltest.LongPatience, "many calls are made", func() bool { return stopped.made() >= at })
		first.Signal(syscall.SIGSTOP)
		if round%3 == 2 { // it goes on in the middle of the take-over
			within(t, pmltest.LongPatience, "the other server has taken a run", func() bool { return stopped.taken() > 0 })
			first.Signal(syscall.SIGCONT)
			stopped.complete()
		} else { // all is done that it had begun: whatever it sends now is sent twice
			stopped.complete()
			first.Signal(syscall.SIGCONT)
		}
		stopped.goesOn()
		stopped.check()
		if t.Failed() {
			t.Fatalf("in round %d, stopped after %d calls", round, at)
		}
	}
	again := 0
	for _, answer := range a.asked {
		if answer == core.RunAgain {
			again++
		}
	}
	t.Logf("%d calls were in doubt, %d of them had not been sent", len(a.asked), again)
}

// stopRound is one round: runs of the first server, which the second takes over.
type stopRound struct {
	first, second *pmltest.Node
	answers       *answers
	name          string
	ids           []core.ID
	runners       map[core.ID]string // who had each run at first
}

func (r *stopRound) begin() {
	t := r.first.Machine.T
	t.Helper()
	r.runners = map[core.ID]string{}
	for i := range stoppedRuns {
		code := fmt.Sprintf("for (let i = 0; i < %d; i++) await mcp.rec.inc({key: `%s.%d.${i}`});", stoppedCalls, r.name, i)
		r.ids = append(r.ids, r.first.Begin(api.ExecuteRequest{Code: code, Detach: true}))
	}
	for _, id := range r.ids {
		r.runners[id] = r.run(id).Runner
	}
}

// run is a run as the second server shows it.
func (r *stopRound) run(id core.ID) core.Run {
	t := r.first.Machine.T
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	w, err := r.second.Client.Workflow(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return w.Run
}

// counts is how often each call of the round was made, by its key.
func (r *stopRound) counts() map[string]int {
	out := map[string]int{}
	for call, n := range countStarts(r.first.Machine) {
		if strings.HasPrefix(call, `inc {"key":"`+r.name+`.`) {
			out[call] = n
		}
	}
	return out
}

func (r *stopRound) made() int { return len(r.counts()) }

// taken counts the runs that the first server has no more.
func (r *stopRound) taken() (n int) {
	for _, id := range r.ids {
		if now := r.run(id); now.State.Final() || now.Runner != r.runners[id] {
			n++
		}
	}
	return n
}

// complete answers for the calls in doubt until all runs have ended.
func (r *stopRound) complete() {
	t := r.first.Machine.T
	t.Helper()
	within(t, pmltest.LongPatience, "all runs complete", func() bool {
		r.answers.give(context.Background())
		for _, id := range r.ids {
			switch now := r.run(id); {
			case now.State == core.RunComplete:
			case now.State.Final():
				t.Fatalf("the run %s is %s: %v", id, now.State, now.Error)
			default:
				return false
			}
		}
		return true
	})
}

// goesOn waits until the first server, which went on, is a runner again and has dealt
// with what it had begun.
func (r *stopRound) goesOn() {
	t := r.first.Machine.T
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	if res, err := r.first.Client.Execute(ctx, api.ExecuteRequest{Code: "return 1", Wait: -1}); err != nil || res.Status != api.StatusSuccess {
		t.Fatalf("the first server does not go on: %v, %+v", err, res)
	}
}

func (r *stopRound) check() {
	t := r.first.Machine.T
	t.Helper()
	calls := r.counts()
	if len(calls) != stoppedRuns*stoppedCalls {
		t.Errorf("%d calls were made, want %d", len(calls), stoppedRuns*stoppedCalls)
	}
	for call, n := range calls {
		if n != 1 {
			t.Errorf("%s was made %d times", call, n)
		}
	}
}
