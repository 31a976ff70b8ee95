//go:build unix

package daemon_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// Who starts a server by hand takes the place of one that was started by
// itself; whoever looks for a server meanwhile starts none.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	d := daemon.New(options(t, home, "ok", "v1.0.0"))
	old, err := d.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim, left, started, err := d.TakeOver(t.Context())
	if err != nil || left == nil || left.PID != old.PID {
		t.Fatalf("%+v, %v", left, err)
	}
	var wg sync.WaitGroup
	stop, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); wg.Wait(); claim.Close() }()
	looked, ready := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		defer close(looked)
		s, err := daemon.New(options(t, home, "ok", "v1.0.0")).Start(t.Context())
		if err != nil || s.PID == old.PID || s.Background {
			t.Errorf("who looked: %+v, %v", s, err)
		}
	})
	wg.Go(func() {
		if err := answer(stop, home, []string{"ok", "v1.0.0", strconv.Itoa(api.Protocol)}, claim, nil, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	started()
	started()
	<-looked
	if got := starts(t, home); len(got) != 1 {
		t.Errorf("%d servers were started by themselves, want 1", len(got))
	}
}

// One that a person has started, and one of a newer pml, stay.
func TestTakeOver_NotOurs(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	byHand(t, home, "ok", "v1.0.0", api.Protocol)
	if _, _, _, err := daemon.New(options(t, home, "ok", "v1.0.0")).TakeOver(t.Context()); core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("by hand: %v", err)
	}
	home = newHome(t)
	s, err := daemon.New(options(t, home, "ok", "v2.0.0")).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := daemon.New(options(t, home, "ok", "v1.0.0"))
	if _, _, _, err := d.TakeOver(t.Context()); core.CodeOf(err) != core.CodeStoreBusy {
		t.Errorf("a newer one: %v", err)
	}
	// Nothing is locked after an error.
	if now, err := d.Stop(t.Context()); err != nil || now.PID != s.PID {
		t.Errorf("%+v, %v", now, err)
	}
}
