//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStdio_Says: what keeps tools from an agent is on stderr without anybody
// asking for it: each thing once, however often the host lists.
func TestStdio_Says(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"one": m.rec(nil), "two": m.rec(nil), "none": map[string]any{"command": "/no/such/program"}},
		"expose":     []string{"*:inc", "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.write(".pml.json", string(raw))
	m.ok("trust", "--yes")
	h := m.host()
	for range 4 {
		h.names()
	}
	h.close()
	said := h.err.String()
	for _, text := range []string{"one:inc and two:inc have the same name", "server=none"} {
		if strings.Count(said, text) != 1 {
			t.Errorf("not once %q:\n%s", text, said)
		}
	}
	if strings.Contains(said, "level=INFO") {
		t.Errorf("%s", said)
	}
}

// TestStdio_SaysMalformed: a pattern that switches everything off is said.
func TestStdio_SaysMalformed(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.write(".pml.json", `{"mcpServers": {"one": {"command": "true"}}, "expose": ["one:"]}`)
	m.ok("trust", "--yes")
	h := m.host()
	h.close()
	if said := h.err.String(); strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, "one:") {
		t.Errorf("%s", said)
	}
	m.write(".pml.json", `{"mcpServers": {"one": {"command": "true"}}}`)
	h = m.host()
	h.close()
	if said := h.err.String(); said != "" {
		t.Errorf("nothing is wrong: %s", said)
	}
}

// TestStdio_SaysNothingOfItsEnd: that servers were still starting when the host
// left is no fault of theirs.
func TestStdio_SaysNothingOfItsEnd(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	file := filepath.Join(m.WS, "begun")
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"late": map[string]any{"command": "/bin/sh", "args": []string{"-c", `echo > "$1"; exec cat >/dev/null`, "sh", file}}},
		"expose":     []string{"late"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.write(".pml.json", string(raw))
	m.ok("trust", "--yes")
	h := m.host()
	h.send("tools/list", map[string]any{})
	waitFor(t, "the server to begin", func() bool { _, err := os.Stat(file); return err == nil })
	if code := h.close(); code != 0 {
		t.Errorf("code %d", code)
	}
	if said := h.err.String(); said != "" {
		t.Errorf("%s", said)
	}
}

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
