//go:build unix

package approvals_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// commented is a .pml.json as a person writes it: with comments and an order
// of its own.
func commented(m *pmltest.Machine) string {
	return `{
  // what this project may do
  "permissions": {
    "deny": ["rec:danger"], // never
    /* and these are harmless */
    "allow": [
      "rec:echo", // it only reads
      "rec:wait" // so does this
    ]
  },
  "version": 1,
  "mcpServers": {
    "rec": {"args": ["--log", ` + pmltest.Quote(m.T, m.Log) + `], "command": ` + pmltest.Quote(m.T, pmltest.Recorder(m.T)) + `} // the only one
  }
}
`
}

// withComments is a machine with such a file, trusted.
func withComments(t *testing.T) *pmltest.Machine {
	t.Helper()
	m := pmltest.BareMachine(t)
	m.Write(".pml.json", commented(m))
	m.OK("trust", "--yes")
	return m
}

// writes is a script that calls a tool which asks, several times.
const writes = `for (const path of ["a", "b", "c"]) { await mcp.rec.write({path}) } return "done"`

// startAsking starts a script that waits for decisions of others, and returns the
// approval that it waits for.
func startAsking(m *pmltest.Machine, script string) (*pmltest.Process, core.Approval) {
	m.T.Helper()
	p := m.Start("execute", "--json", "--on-approval", "wait", "--code", script)
	var asked []core.Approval
	pmltest.WaitFor(m.T, "a question", func() bool { asked = m.Approvals(); return len(asked) == 1 })
	return p, asked[0]
}

// TestRemember_Run: a permission for the rest of the run, given in another
// process than the run's, holds for its later calls and for no later run.
func TestRemember_Run(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	p, asked := startAsking(m, writes)
	m.OK("continue", string(asked.RunID), "--approve", "--remember", "run")
	if r := p.Wait().Want(0).Result(); string(r.Result) != `"done"` || m.Count("write") != 3 {
		t.Errorf("%s after %d calls", r.Result, m.Count("write"))
	}
	r := m.Execute(8, writes)
	if r.ApprovalType != core.ApproveTool || m.Count("write") != 3 {
		t.Errorf("the next run: %s, %d calls", r.ApprovalType, m.Count("write"))
	}
	if pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")) != commented(m) {
		t.Error(".pml.json was changed")
	}
}

// ruled wants that a rule for rec:write was written into .pml.json and nothing
// else of it changed, that nothing is asked any more, and that a rule that
// denies, added later, wins.
func ruled(t *testing.T, m *pmltest.Machine) {
	t.Helper()
	path := filepath.Join(m.WS, ".pml.json")
	bare := strings.NewReplacer(" ", "", "\n", "", ",", "").Replace
	after := pmltest.ReadFile(t, path)
	if n := strings.Count(after, `"rec:write"`); n != 1 || bare(strings.Replace(after, `"rec:write"`, "", 1)) != bare(commented(m)) {
		t.Fatalf("was:\n%s\nis:\n%s", commented(m), after)
	}
	if o := m.OK("trust", "--show"); strings.Contains(o.Stdout, "not trusted") {
		t.Errorf("the rule cost the trust: %s", o.Stdout)
	}
	n := m.Count("write")
	m.Execute(0, writes)
	if m.Count("write") != n+3 {
		t.Errorf("the next run made %d calls", m.Count("write")-n)
	}
	m.Write(".pml.json", strings.Replace(pmltest.ReadFile(t, path), `"deny": [`, `"deny": ["rec:write", `, 1))
	m.Exit(9, "execute", "--code", writes)
	if m.Count("write") != n+3 {
		t.Error("a call was made that a rule denies")
	}
}

// TestRemember_Rule: a permission that is to be remembered for good is shown as
// a change of .pml.json before it is written there.
func TestRemember_Rule(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	p, asked := startAsking(m, writes)
	args := []string{"continue", string(asked.RunID), "--approve", "--remember", "rule"}
	o := m.Exit(8, args...)
	pmltest.Wants(t, o.Stderr, `permissions.allow gets "rec:write"`, ".pml.json", `rec:write"`, "--yes")
	if pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")) != commented(m) || m.Count("write") != 0 {
		t.Fatal("it was taken for a yes")
	}
	m.OK(append(args, "--yes")...)
	if r := p.Wait().Want(0).Result(); string(r.Result) != `"done"` || m.Count("write") != 3 {
		t.Errorf("%s after %d calls", r.Result, m.Count("write"))
	}
	ruled(t, m)
}

// TestRemember_RuleKilled: the process of the run is killed after the decision
// and before it could write the rule. The decider takes the run over; or, when
// it is killed too, whoever continues the run.
func TestRemember_RuleKilled(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"the runner": false, "the decider too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := withComments(t)
			p, asked := startAsking(m, writes)
			p.Signal(syscall.SIGSTOP)
			d := m.Start("continue", string(asked.RunID), "--approve", "--remember", "rule", "--yes", "--json")
			pmltest.WaitFor(t, "the decision", func() bool { return m.Workflow(asked.RunID).Approvals[0].State == core.ApprovalApproved })
			if m.Count("write") != 0 {
				t.Fatal("the stopped process went on")
			}
			if both {
				d.Kill()
				p.Kill()
				m.OK("continue", string(asked.RunID))
			} else {
				p.Kill()
				if r := d.Wait().Want(0).Result(); string(r.Result) != `"done"` {
					t.Errorf("result %s", r.Result)
				}
			}
			if m.Count("write") != 3 {
				t.Errorf("calls %q", m.Calls())
			}
			ruled(t, m)
		})
	}
}

// TestRemember_Terminal: at the prompt the rule is shown and asked about before
// it is written; who says no to it can still say yes to the call.
func TestRemember_Terminal(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`ater: $`, "w"), pmltest.Typed(`gets "rec:write"[\s\S]*rule\? \[y\]es / \[n\]o: $`, "n"), pmltest.Typed(`ater: $`, "y"),
		pmltest.Typed(`ater: $`, "w"), pmltest.Typed(`rule\? \[y\]es / \[n\]o: $`, "y"),
	}, "execute", "--code", writes)
	if s.Exit != 0 || m.Count("write") != 3 {
		t.Fatalf("exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	pmltest.WantHarmless(t, s.Text)
	ruled(t, m)
	if _, err := os.Stat(filepath.Join(m.WS, ".pml.json.tmp")); err == nil {
		t.Error("something was left over")
	}
}

// TestRemember_RuleCannotBeWritten: .pml.json is a link out of the workspace.
// Nothing is decided on the strength of a rule that will not be there.
func TestRemember_RuleCannotBeWritten(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	outside := filepath.Join(m.Dir, "outside.json")
	if err := os.Rename(filepath.Join(m.WS, ".pml.json"), outside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(m.WS, ".pml.json")); err != nil {
		t.Fatal(err)
	}
	m.OK("trust", "--yes")
	r := m.Execute(8, writes)
	for _, more := range [][]string{nil, {"--json"}} {
		o := m.Exit(2, append([]string{"continue", string(r.WorkflowID), "--approve", "--remember", "rule", "--yes"}, more...)...)
		if !strings.Contains(o.Stderr, "link out of the workspace") || strings.Contains(o.Stderr, "@@") {
			t.Errorf("it says: %s", o.Stderr)
		}
		if open := m.Approvals(); len(open) == 0 || m.Count("write") != 0 {
			t.Errorf("%d approvals wait, and %d calls were made", len(open), m.Count("write"))
		}
	}
	m.JSON(8, "continue", string(r.WorkflowID), "--approve")
	if n := m.Count("write"); n != 1 {
		t.Errorf("%d calls after an approval", n)
	}
}
