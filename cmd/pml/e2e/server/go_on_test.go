//go:build unix

package server_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// onStore is a machine whose server has a store of a kind, and the arguments
// that start it.
func onStore(t *testing.T, kind string, c pmltest.Config) (*pmltest.Machine, []string) {
	t.Helper()
	if kind == "postgres" {
		skiptest.Long(t, onceMore)
	}
	m := pmltest.NewMachine(t, c)
	m.Setenv("PML_NO_AUTOSTART", "1")
	if kind == "postgres" {
		return m, shared(t)
	}
	return m, nil
}

// detached starts a run on the server and returns its id.
func detached(m *pmltest.Machine, args ...string) string {
	m.T.Helper()
	return strings.TrimSpace(m.OK(append(args, "--detach")...).Stdout)
}

// TestServer_GoesOn: whatever ends a server in the middle of a run, the next
// one goes on from the journal by itself, and nothing that ran runs twice.
//
// Scenario 34.
func TestServer_GoesOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ store, kind, end string }{
		{"bbolt", "code", "SIGINT"},
		{"bbolt", "code", "SIGTERM"},
		{"bbolt", "code", "kill all"},
		{"bbolt", "dag", "Ctrl-C"},
		{"bbolt", "dag", "kill"},
		{"postgres", "code", "kill"},
		{"postgres", "dag", "SIGTERM"},
		{"postgres", "dag", "kill all"},
	} {
		t.Run(tt.store+"/"+tt.kind+"/"+tt.end, func(t *testing.T) {
			t.Parallel()
			e := pmltest.Ends[slices.IndexFunc(pmltest.Ends, func(e pmltest.End) bool { return e.Name == tt.end })]
			m, with := onStore(t, tt.store, pmltest.AllowRec())
			p := m.Serving(with...)
			file := filepath.Join(m.Dir, "go-on")
			id := detached(m, m.Halfway(tt.kind, "wait", file)...)
			pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
			e.Do(p)
			if o := p.Wait(); e.Exit != 0 && o.Exit != 0 {
				t.Errorf("the server ended with %d: %s", o.Exit, o.Stderr)
			}
			m.Exit(5, "server", "status")
			m.Serving(with...)
			pmltest.WaitFor(t, "the next server runs it", func() bool { return m.Count("wait") == 2 })
			q := m.Start("continue", id, "--json")
			pmltest.Touch(t, file)
			if r := q.Wait().Want(0).Result(); r.Status != api.StatusComplete {
				t.Errorf("status %s", r.Status)
			}
			want := []string{`inc {"key":"a"}`, fmt.Sprintf(`wait {"file":%q}`, file), fmt.Sprintf(`wait {"file":%q}`, file), `inc {"key":"b"}`}
			if diff := cmp.Diff(want, m.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServer_InDoubt: a call with a side effect that was under way when the
// server was killed is asked about by the next one, and each answer does what
// it says.
//
// Scenario 34: nothing that ran runs twice.
func TestServer_InDoubt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		store, kind, name string
		args              []string
		exit              int
		holds             int // how often the call in doubt was started, in all
		state             core.RunState
	}{
		{"bbolt", "code", "run again", []string{"--answer", "run-again"}, 0, 2, core.RunComplete},
		{"bbolt", "dag", "skip", []string{"--answer", "skip", "--result", `{"file":"assumed"}`}, 0, 1, core.RunComplete},
		{"bbolt", "dag", "deny", []string{"--deny"}, 9, 1, core.RunFailed},
		{"postgres", "dag", "run again", []string{"--answer", "run-again"}, 0, 2, core.RunComplete},
		{"postgres", "code", "skip", []string{"--answer", "skip", "--result", `{"file":"assumed"}`}, 0, 1, core.RunComplete},
		{"postgres", "code", "abort", []string{"--deny", "--abort"}, 10, 1, core.RunAborted},
	} {
		t.Run(tt.store+"/"+tt.kind+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			m, with := onStore(t, tt.store, pmltest.AllowRec())
			p := m.Serving(with...)
			file := filepath.Join(m.Dir, "go-on")
			id := detached(m, m.Halfway(tt.kind, "hold", file)...)
			pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
			p.Kill()
			// Again and again: it is asked once, and not answered by itself.
			var asked core.ID
			for range 2 {
				p = m.Serving(with...)
				var list []core.Approval
				pmltest.WaitFor(t, "somebody is asked", func() bool { list = m.Approvals(); return len(list) == 1 })
				if ap := list[0]; ap.Type != core.ApproveInDoubt || ap.Tool != "rec:hold" || asked != "" && ap.ID != asked {
					t.Fatalf("asked for %+v, before that %s", ap, asked)
				}
				asked = list[0].ID
				p.Kill()
			}
			m.Serving(with...)
			pmltest.Touch(t, file)
			m.Exit(tt.exit, append([]string{"continue", id, "--checkpoint", string(asked)}, tt.args...)...)
			if got := m.Count("hold"); got != tt.holds {
				t.Errorf("the call in doubt ran %d times, want %d", got, tt.holds)
			}
			if w := m.Workflow(core.ID(id)); w.State != tt.state {
				t.Errorf("the run is %s, want %s", w.State, tt.state)
			}
			want := "a"
			if tt.state == core.RunComplete {
				want = "a b"
			}
			if got := m.IncKeys(); got != want {
				t.Errorf("calls of inc: %q, want %q", got, want)
			}
		})
	}
}

// TestServer_OutcomeInTime: a server that is told to stop keeps the outcome of
// a call that ends soon, and nobody is asked about it.
//
// Scenario 34.
func TestServer_OutcomeInTime(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"bbolt", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			m, with := onStore(t, store, pmltest.AllowRec())
			p := m.Serving(with...)
			file := filepath.Join(m.Dir, "go-on")
			id := detached(m, m.Halfway("code", "hold", file)...)
			defer func() {
				if t.Failed() {
					t.Logf("calls: %q\nthe run: %s\nthe server: %s", m.Calls(), m.PML("workflows", "show", id).Stdout, p.Err.String())
				}
			}()
			pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("hold") == 1 })
			p.Signal(syscall.SIGTERM)
			pmltest.WaitFor(t, "the server stops", func() bool { return strings.Contains(p.Err.String(), "the server stops") })
			pmltest.Touch(t, file)
			p.Wait().Want(0)
			m.Serving(with...)
			m.OK("continue", id)
			want := []string{`inc {"key":"a"}`, fmt.Sprintf(`hold {"file":%q}`, file), `inc {"key":"b"}`}
			if diff := cmp.Diff(want, m.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServer_AsksAgain: an approval that expired while there was no server is
// asked for again, and nothing that ran runs twice.
//
// Scenario 34.
func TestServer_AsksAgain(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits until an approval expires")
	for _, store := range []string{"bbolt", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := pmltest.AllowRec()
			c.Approvals = map[string]any{"ttl": "5s"}
			m, with := onStore(t, store, c)
			p := m.Serving(with...)
			r := m.Execute(8, `const a = await mcp.rec.inc({key: "a"}); return (await mcp.rec.danger({x: "n" + a.count})).done`, "--detach", "--wait", "150s")
			p.Kill()
			pmltest.WaitFor(t, "the approval expires", func() bool { return time.Now().After(*r.ExpiresAt) })
			c.Approvals["ttl"] = "5m"
			m.Configure(c)
			m.Serving(with...)
			id := string(r.WorkflowID)
			again := m.JSON(8, "continue", id)
			if again.CheckpointID == r.CheckpointID || again.WorkflowID != r.WorkflowID {
				t.Errorf("asked again as %s of %s", again.CheckpointID, again.WorkflowID)
			}
			if got := m.JSON(0, "continue", id, "--approve"); string(got.Result) != `"n1"` {
				t.Errorf("result %s", got.Result)
			}
			if diff := cmp.Diff([]string{`inc {"key":"a"}`, `danger {"x":"n1"}`}, m.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
