package progress_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

// screenOf is a screen whose clock stands until it is moved.
func screenOf(w *strings.Builder, now *time.Time, redraws bool) progress.Screen {
	return progress.Screen{W: w, Width: func() int { return 80 }, Now: func() time.Time { return *now }, Redraws: redraws}
}

// An installation of a minute is one line in place on a terminal, and a line now
// and then elsewhere; the events that tell the same say nothing more.
func TestProgress_Phase(t *testing.T) {
	t.Parallel()
	for _, redraws := range []bool{true, false} {
		var w strings.Builder
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		p := progress.New(screenOf(&w, &now, redraws))
		p.Start()
		p.Phase("asking the registry: x@latest")
		if !strings.Contains(w.String(), "asking the registry: x@latest") {
			t.Errorf("redraws %t: the first words came late: %q", redraws, w.String())
		}
		for i := range 240 {
			now = now.Add(250 * time.Millisecond)
			p.Phase(fmt.Sprintf("installing %d of 240 packages: x@1", i))
			if i%40 == 39 {
				p.Event(core.Event{Type: core.EventTaskLog, Message: fmt.Sprintf("installing %d of 240 packages: x@1 (%ds)", i, i/4)})
			}
		}
		p.Phase("")
		p.Stop()
		lines := strings.Count(w.String(), "\n")
		if redraws && lines != 0 || !redraws && (lines < 6 || lines > 7) || redraws != strings.Contains(w.String(), "installing 0 of 240") {
			t.Errorf("redraws %t: %d lines: %s", redraws, lines, w.String())
		}
	}
}

// TestProgress_PhaseLines: where nothing is redrawn, a phase that begins soon after a line
// has its own once ten seconds have passed, if it still goes on, and none if it does not.
func TestProgress_PhaseLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w strings.Builder
		begin := time.Now()
		screen := progress.Screen{W: &w, Width: func() int { return 80 }, Now: time.Now}
		want := "asking the registry: x@latest\ninstalling 1 of 104 packages: x@1\ninstalling 9 of 104 packages: x@1\n"
		phases := func(phase func(string)) {
			phase("asking the registry: x@latest")
			time.Sleep(3 * time.Second)
			phase("checking x@1")
			phase("")
			time.Sleep(2 * time.Second)
			phase("installing 1 of 104 packages: x@1")
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if w.String() != "asking the registry: x@latest\n" {
				t.Errorf("after %s: %q", time.Since(begin), w.String())
			}
			time.Sleep(5 * time.Second)
			phase("installing 9 of 104 packages: x@1")
			time.Sleep(20 * time.Second)
			synctest.Wait()
			phase("")
		}
		p := progress.New(screen)
		p.Start()
		phases(p.Phase)
		p.Stop()
		if w.String() != want {
			t.Errorf("a run says %q", w.String())
		}
		w.Reset()
		b := progress.NewBusy(screen, true, "asking the registry: x@latest")
		phases(b.Phase)
		b.End()
		if w.String() != want {
			t.Errorf("a command says %q", w.String())
		}
		w.Reset()
		b = progress.NewBusy(screen, true, "asking where to sign in")
		b.Say("waiting for the browser")
		b.End()
		if w.String() != "asking where to sign in\nwaiting for the browser\n" {
			t.Errorf("steps of a command are %q", w.String())
		}
	})
}
