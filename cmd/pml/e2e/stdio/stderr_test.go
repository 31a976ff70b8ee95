//go:build unix

package stdio_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// TestStdio_Says: what keeps tools from an agent is on stderr without anybody
// asking for it: each thing once, however often the host lists.
func TestStdio_Says(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"one": m.Rec(nil), "two": m.Rec(nil), "none": map[string]any{"command": "/no/such/program"}},
		"expose":     []string{"*:inc", "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
	m.OK("trust", "--yes")
	h := startHost(m)
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
	m := pmltest.BareMachine(t)
	m.Write(".pml.json", `{"mcpServers": {"one": {"command": "true"}}, "expose": ["one:"]}`)
	m.OK("trust", "--yes")
	h := startHost(m)
	h.close()
	if said := h.err.String(); strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, "one:") {
		t.Errorf("%s", said)
	}
	m.Write(".pml.json", `{"mcpServers": {"one": {"command": "true"}}}`)
	h = startHost(m)
	h.close()
	if said := h.err.String(); said != "" {
		t.Errorf("nothing is wrong: %s", said)
	}
}

// TestStdio_SaysNothingOfItsEnd: that servers were still starting when the host
// left is no fault of theirs.
func TestStdio_SaysNothingOfItsEnd(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	file := filepath.Join(m.WS, "begun")
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"late": map[string]any{"command": "/bin/sh", "args": []string{m.Write("late.sh", `echo > "$1"; exec cat >/dev/null`), file}}},
		"expose":     []string{"late"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
	m.OK("trust", "--yes")
	h := startHost(m)
	h.send("tools/list", map[string]any{})
	pmltest.WaitFor(t, "the server to begin", func() bool { _, err := os.Stat(file); return err == nil })
	if code := h.close(); code != 0 {
		t.Errorf("code %d", code)
	}
	if said := h.err.String(); said != "" {
		t.Errorf("%s", said)
	}
}
