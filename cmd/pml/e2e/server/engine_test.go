//go:build unix

package server_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// TestEngine_Missing: without the program of an engine no server starts, and all who want one say how it is made; what an address
// has to be is said before. The tests of the engine itself are in store/temporal/cmd/pml-temporal.
func TestEngine_Missing(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Setenv("PATH", m.Dir)
	const at = "temporal://127.0.0.1:1/ns"
	for _, args := range [][]string{{"serve", "--engine", at}, {"doctor", "--engine", at}, {"doctor", "--engine", at, "--prepare"}} {
		if o := m.Exit(13, args...); !strings.Contains(o.Stderr, "go build -o ") || !strings.Contains(o.Stderr, "./cmd/pml-temporal") {
			t.Errorf("%v: %s", args, o.Stderr)
		}
	}
	for _, wrong := range []string{"temporal://127.0.0.1:1", "http://127.0.0.1:1/ns", "temporal://ann:very-secret@127.0.0.1:1/ns"} {
		if o := m.PML("serve", "--engine", wrong); o.Exit == 0 || strings.Contains(o.Stderr, "very-secret") || strings.Contains(o.Stderr, "go build") {
			t.Errorf("%s: exit %d, %s", wrong, o.Exit, o.Stderr)
		}
	}
	m.Exit(2, "serve", "--engine", at, "--store", "postgres://127.0.0.1/db")
	m.Exit(2, "doctor", "--prepare")
	m.Setenv("PML_ENGINE", at)
	if o := m.PML("execute", "--code", "return 1", "--detach"); o.Exit != 13 || !strings.Contains(o.Stderr, "go build -o ") {
		t.Errorf("a server in the background: exit %d, %s", o.Exit, o.Stderr)
	}
}
