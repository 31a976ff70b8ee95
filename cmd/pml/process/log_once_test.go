//go:build unix

package process

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// TestOnce: repeated warnings are left out, others and errors are not; none
// comes after the end.
func TestOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := newOnce(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}))
	log := slog.New(h)
	for range 2 {
		log.Warn("a", "why", "x")
		log.With("server", "s").Warn("a", "why", "x")
		log.WithGroup("g").Warn("a", "why", "x")
		log.Warn("a", "why", "y")
		log.Error("e")
		log.Debug("d")
	}
	for n := range maxSaid {
		log.Warn("many", "n", n)
	}
	log.Warn("a", "why", "x") // what is remembered is bounded
	h.leave()
	log.Warn("late")
	log.Error("e")
	got := map[string]int{}
	for line := range strings.Lines(b.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		got[line]++
	}
	for line, want := range map[string]int{
		"level=WARN msg=a why=x": 2, "level=WARN msg=a server=s why=x": 1, "level=WARN msg=a g.why=x": 1, "level=WARN msg=a why=y": 1,
		"level=ERROR msg=e": 3, "level=WARN msg=late": 0,
	} {
		if got[line] != want {
			t.Errorf("%s: %d, want %d", line, got[line], want)
		}
	}
	if !h.Enabled(context.Background(), slog.LevelWarn) || h.Enabled(context.Background(), slog.LevelInfo) {
		t.Error("the level is not that of the handler below")
	}
}
