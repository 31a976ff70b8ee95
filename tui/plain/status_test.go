package plain

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// TestStatus_Events: what happened before is not read out, and an error is told once.
func TestStatus_Events(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	var said []string
	s := &status{since: began, say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	st := state.New(100)
	failure := core.Errorf(core.CodeToolFailed, "disk full")
	st.AddEvents(
		core.Event{Seq: 1, Type: core.EventWorkflowComplete, At: began.Add(-time.Hour), RunID: "old"},
		core.Event{Seq: 2, Type: core.EventTaskError, At: began.Add(time.Second), RunID: "new", TaskID: "a", Error: failure},
		core.Event{Seq: 3, Type: core.EventWorkflowFailed, At: began.Add(time.Second), RunID: "new", Error: failure},
	)
	s.events(st)
	if len(said) != 2 || strings.Count(strings.Join(said, "\n"), "disk full") != 1 {
		t.Errorf("said %q", said)
	}
}

func TestLeft(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	for rest, want := range map[time.Duration]string{
		90 * time.Second: "1 minute 30 seconds left", 85808 * time.Second: "23 hours left", 3660 * time.Second: "1 hour 1 minute left",
	} {
		at := now.Add(rest)
		if got := left(core.Approval{ExpiresAt: &at}, now); got != want {
			t.Errorf("%s: %q, want %q", rest, got, want)
		}
	}
}

// TestLately: what was just said with an approval is not said once more a moment later.
func TestLately(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for rest, want := range map[time.Duration]time.Duration{
		2 * time.Hour: math.MaxInt64, 5*time.Minute + 11*time.Second: math.MaxInt64, 5 * time.Minute: 5 * time.Minute,
		2 * time.Minute: 5 * time.Minute, 40 * time.Second: time.Minute, 25 * time.Second: 20 * time.Second,
	} {
		at := now.Add(rest)
		if got := lately(core.Approval{ExpiresAt: &at}, now); got != want {
			t.Errorf("%s: %s, want %s", rest, got, want)
		}
	}
	if got := lately(core.Approval{}, now); got != math.MaxInt64 {
		t.Errorf("without an end: %s", got)
	}
}
