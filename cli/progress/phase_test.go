package progress_test

import (
	"fmt"
	"strings"
	"testing"
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
		if redraws && lines != 0 || !redraws && (lines < 4 || lines > 8) || !strings.Contains(w.String(), "installing 0 of 240") {
			t.Errorf("redraws %t: %d lines: %s", redraws, lines, w.String())
		}
	}
}
