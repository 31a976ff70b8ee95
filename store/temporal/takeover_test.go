package temporal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
)

// The runs of a worker that is killed go on in others, without anybody asking for them: one
// that makes a call makes it again, and one that waits goes on once it is decided. The test
// says how long that takes.
func TestTakeOver_AfterKill(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "kills processes")
	c := newCrew(t, 3)
	var running, waiting []time.Duration
	for i := range number(t, "PML_TEST_TEMPORAL_TAKEOVERS", 2) {
		victim, other := c.members[i%3], c.members[(i+1)%3]
		hangs, waits := enginetest.NewID(), enginetest.NewID()
		c.must(victim, order{Do: "start", Run: hangs, Program: core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{enginetest.Task("t1", "a:hang")}}})
		c.must(victim, order{Do: "start", Run: waits, Program: core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{enginetest.Task("t1", "a:ask")}}})
		c.seen(hangs, 1)
		asked := c.asked(other, waits)
		killed := time.Now()
		victim.kill()
		running = append(running, c.seen(hangs, 2).Sub(killed))
		decided := time.Now()
		c.must(other, order{Do: "decide", Run: waits, Decision: &core.Decision{ApprovalID: asked, Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: decided}})
		waiting = append(waiting, c.seen(waits, 1).Sub(decided))
		for _, id := range []core.ID{hangs, waits} {
			c.eventually(other, id, func(r reply) bool { return r.Run.State == core.RunComplete })
		}
		victim.start()
		victim.await()
	}
	slices.Sort(running)
	slices.Sort(waiting)
	t.Logf("from the kill to the call of another worker: %v", running)
	t.Logf("from the decision about a run of a dead worker to its call: %v", waiting)
}

// must gives an order that has to be obeyed.
func (c *crew) must(m *member, o order) reply {
	c.t.Helper()
	r, err := m.ask(o, enginetest.Hung)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", o.Do, err, c.tail(m.name))
	}
	return r
}

// seen waits for the n-th effect of a run, and says when it was.
func (c *crew) seen(run core.ID, n int) time.Time {
	c.t.Helper()
	for deadline := time.Now().Add(enginetest.Hung); time.Now().Before(deadline); pause(20 * time.Millisecond) {
		left := n
		for _, e := range c.effects() {
			if e.Run != run {
				continue
			}
			if left--; left == 0 {
				return e.At
			}
		}
	}
	for _, m := range c.members {
		c.t.Logf("%s:\n%s", m.name, c.tail(m.name))
	}
	c.t.Fatalf("the run %s does not make its call %d", run, n)
	return time.Time{}
}

// asked waits for the question of a run.
func (c *crew) asked(m *member, run core.ID) core.ID {
	c.t.Helper()
	r := c.eventually(m, run, func(r reply) bool { return len(r.Approvals) > 0 && r.Run.State == core.RunWaiting })
	return r.Approvals[0].ID
}

// eventually looks at a run until it is as it should be.
func (c *crew) eventually(m *member, run core.ID, is func(reply) bool) reply {
	c.t.Helper()
	var r reply
	var err error
	for deadline := time.Now().Add(enginetest.Hung); time.Now().Before(deadline); pause(20 * time.Millisecond) {
		if r, err = m.ask(order{Do: "look", Run: run}, enginetest.Hung); err == nil && is(r) {
			return r
		}
	}
	c.t.Fatalf("the run %s is not as it should be: %+v, %v", run, r, err)
	return r
}
