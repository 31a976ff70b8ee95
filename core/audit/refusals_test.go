package audit

import (
	"strconv"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// However many things are tried, what is kept and written stays bounded, and
// each attempt is counted once.
func TestRefusals_ManyThings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := refusedFile{}
	rows, counted := 0, 0
	take := func() {
		for _, r := range f.takeDue(now) {
			rows, counted = rows+1, counted+r.More
		}
	}
	const tries = 10_000
	for i := range tries {
		f.add(refusal{Code: "x", Row: core.AuditRow{RunID: core.ID(strconv.Itoa(i))}}, now)
		take()
	}
	if len(f) > maxRefused+1 || rows > maxRefused+1 {
		t.Errorf("%d are kept, %d rows", len(f), rows)
	}
	now = now.Add(refusedEach)
	take()
	if counted != tries || rows > maxRefused+2 {
		t.Errorf("%d attempts in %d rows", counted, rows)
	}
	if now = now.Add(refusedEach); len(f.takeDue(now)) > 0 || len(f) > 0 {
		t.Errorf("%d are kept when all is over", len(f))
	}
}

// A clock that was set back keeps nothing from the log.
func TestRefusal_Fresh(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]bool{0: true, -refusedEach + 1: true, -refusedEach: false, time.Second: false} {
		if got := (refusal{At: now.Add(at)}).fresh(now); got != want {
			t.Errorf("%s: %t", at, got)
		}
	}
}

// What a process counts beside the file is known to be full, too.
func TestRefusals_Counted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one := refusal{Code: "x", Row: core.AuditRow{RunID: "one"}, At: now}
	s := &refusals{}
	if s.counted(one, now) {
		t.Error("counted, though nothing is known of it")
	}
	s.learn(refusedFile{one.key(): one})
	if !s.counted(one, now) || !s.pending() || s.due(now) || !s.due(now.Add(refusedEach)) || s.counted(one, now.Add(refusedEach)) {
		t.Error("it is counted for a minute")
	}
	f := refusedFile{}
	f.merge(s.take())
	if f[one.key()].More != 1 || s.pending() {
		t.Errorf("%+v", f)
	}
}
