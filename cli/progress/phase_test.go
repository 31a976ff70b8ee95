package progress_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

// written is what is written, by the clock as well as by the test.
type written struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// screenOf is a screen with the clock of this process, or of the test's bubble.
func screenOf(redraws bool) (progress.Screen, *written) {
	w := &written{}
	return progress.Screen{W: w, Width: func() int { return 80 }, Now: time.Now, Redraws: redraws}, w
}

// An installation of a minute is one line in place on a terminal, and a line now
// and then elsewhere; the events that tell the same say nothing more.
func TestProgress_Phase(t *testing.T) {
	t.Parallel()
	for _, redraws := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			screen, w := screenOf(redraws)
			p := progress.New(screen)
			p.Start()
			p.Phase("asking the registry: x@latest")
			if !strings.Contains(w.String(), "asking the registry: x@latest") {
				t.Errorf("redraws %t: the first words came late: %q", redraws, w.String())
			}
			for i := range 240 {
				time.Sleep(250 * time.Millisecond)
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
		})
	}
}

// TestProgress_PhaseLines: where nothing is redrawn, a phase that begins soon after a line
// has its own once ten seconds have passed, if it still goes on, and none if it does not.
func TestProgress_PhaseLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		screen, w := screenOf(false)
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
		screen, w = screenOf(false)
		b := progress.NewBusy(screen, true, "asking the registry: x@latest")
		phases(b.Phase)
		b.End()
		if w.String() != want {
			t.Errorf("a command says %q", w.String())
		}
		screen, w = screenOf(false)
		b = progress.NewBusy(screen, true, "asking where to sign in")
		b.Say("waiting for the browser")
		b.End()
		if w.String() != "asking where to sign in\nwaiting for the browser\n" {
			t.Errorf("steps of a command are %q", w.String())
		}
	})
}

// What a server said last stands in the line of its call without escapes.
func TestProgress_LastWords(t *testing.T) {
	t.Parallel()
	for _, redraws := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			screen, w := screenOf(redraws)
			p := progress.New(screen)
			p.Start()
			failed := core.Errorf(core.CodeServerUnreachable, "it stopped; it last said:\nFATAL: no key")
			p.Event(core.Event{Type: core.EventTaskError, RunID: "r", TaskID: "c1", Tool: "a:b", Error: failed})
			p.Stop()
			if !strings.Contains(w.String(), "c1 a:b failed: it stopped; it last said: FATAL: no key") && !redraws || strings.Contains(w.String(), `\n`) {
				t.Errorf("redraws %t: %q", redraws, w.String())
			}
		})
	}
}
