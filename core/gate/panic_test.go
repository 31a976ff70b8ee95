package gate_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/api"
)

// brokenClock panics at every look after so many more, once it may.
type brokenClock struct {
	ticking
	broken atomic.Bool
	looks  atomic.Int32
}

func (c *brokenClock) Now() time.Time {
	if c.broken.Load() && c.looks.Add(-1) < 0 {
		panic("the clock")
	}
	return c.ticking.Now()
}

// Servers are asked and checked beside one another: one with which pml panics is
// said to have failed.
func TestPanic_OfOneServer(t *testing.T) {
	t.Parallel()
	p := settle(t, allow)
	clock := &brokenClock{ticking: ticking{at: time.Now()}}
	p.clock = clock
	p.trust().open()
	p.want("fake:write", "{}", "ok")
	clock.broken.Store(true)
	clock.looks.Store(2) // at the configuration
	_, problems, err := p.Tools(t.Context())
	clock.looks.Store(2)
	checked, failed := p.CheckServers(t.Context(), "fake")
	clock.broken.Store(false)
	said := false
	for _, f := range problems {
		said = said || f.Path == "fake" && strings.Contains(f.Message, "inside pml")
	}
	if !said || err != nil {
		t.Errorf("%v, %v", problems, err)
	}
	if failed != nil || len(checked) != 1 || checked[0].State != api.ServerFailed || !strings.Contains(checked[0].Error, "inside pml") {
		t.Errorf("%+v, %v", checked, failed)
	}
	if got := p.checked("fake"); got[0].State != api.ServerReady {
		t.Errorf("%+v", got)
	}
}
