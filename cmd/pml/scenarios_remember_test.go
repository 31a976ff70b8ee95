//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/core"
)

// commented is a .pml.json as a person writes it: with comments and an order
// of its own.
func commented(m *machine) string {
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
    "rec": {"args": ["--log", ` + quote(m.t, m.Log) + `], "command": ` + quote(m.t, recorderBin(m.t)) + `} // the only one
  }
}
`
}

// withComments is a machine with such a file, trusted.
func withComments(t *testing.T) *machine {
	t.Helper()
	m := bareMachine(t)
	m.write(".pml.json", commented(m))
	m.ok("trust", "--yes")
	return m
}

// writes is a script that calls a tool which asks, several times.
const writes = `for (const path of ["a", "b", "c"]) { await mcp.rec.write({path}) } return "done"`

// asking starts a script that waits for decisions of others, and returns the
// approval that it waits for.
func (m *machine) asking(script string) (*process, core.Approval) {
	m.t.Helper()
	p := m.start("execute", "--json", "--on-approval", "wait", "--code", script)
	var asked []core.Approval
	waitFor(m.t, "a question", func() bool { asked = m.approvals(); return len(asked) == 1 })
	return p, asked[0]
}

// TestRemember_Run: a permission for the rest of the run, given in another
// process than the run's, holds for its later calls and for no later run.
func TestRemember_Run(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	p, asked := m.asking(writes)
	m.ok("continue", string(asked.RunID), "--approve", "--remember", "run")
	if r := p.wait().want(0).result(); string(r.Result) != `"done"` || m.count("write") != 3 {
		t.Errorf("%s after %d calls", r.Result, m.count("write"))
	}
	r := m.execute(8, writes)
	if r.ApprovalType != core.ApproveTool || m.count("write") != 3 {
		t.Errorf("the next run: %s, %d calls", r.ApprovalType, m.count("write"))
	}
	if readFile(t, filepath.Join(m.WS, ".pml.json")) != commented(m) {
		t.Error(".pml.json was changed")
	}
}

// ruled wants that a rule for rec:write was written into .pml.json and nothing
// else of it changed, that nothing is asked any more, and that a rule that
// denies, added later, wins.
func ruled(t *testing.T, m *machine) {
	t.Helper()
	path := filepath.Join(m.WS, ".pml.json")
	bare := strings.NewReplacer(" ", "", "\n", "", ",", "").Replace
	after := readFile(t, path)
	if n := strings.Count(after, `"rec:write"`); n != 1 || bare(strings.Replace(after, `"rec:write"`, "", 1)) != bare(commented(m)) {
		t.Fatalf("was:\n%s\nis:\n%s", commented(m), after)
	}
	if o := m.ok("trust", "--show"); strings.Contains(o.Stdout, "not trusted") {
		t.Errorf("the rule cost the trust: %s", o.Stdout)
	}
	n := m.count("write")
	m.execute(0, writes)
	if m.count("write") != n+3 {
		t.Errorf("the next run made %d calls", m.count("write")-n)
	}
	m.write(".pml.json", strings.Replace(readFile(t, path), `"deny": [`, `"deny": ["rec:write", `, 1))
	m.exit(9, "execute", "--code", writes)
	if m.count("write") != n+3 {
		t.Error("a call was made that a rule denies")
	}
}

// TestRemember_Rule: a permission that is to be remembered for good is shown as
// a change of .pml.json before it is written there.
func TestRemember_Rule(t *testing.T) {
	t.Parallel()
	m := withComments(t)
	p, asked := m.asking(writes)
	args := []string{"continue", string(asked.RunID), "--approve", "--remember", "rule"}
	o := m.exit(8, args...)
	wants(t, o.Stderr, `permissions.allow gets "rec:write"`, ".pml.json", `rec:write"`, "--yes")
	if readFile(t, filepath.Join(m.WS, ".pml.json")) != commented(m) || m.count("write") != 0 {
		t.Fatal("it was taken for a yes")
	}
	m.ok(append(args, "--yes")...)
	if r := p.wait().want(0).result(); string(r.Result) != `"done"` || m.count("write") != 3 {
		t.Errorf("%s after %d calls", r.Result, m.count("write"))
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
			p, asked := m.asking(writes)
			p.signal(syscall.SIGSTOP)
			d := m.start("continue", string(asked.RunID), "--approve", "--remember", "rule", "--yes", "--json")
			waitFor(t, "the decision", func() bool { return m.workflow(asked.RunID).Approvals[0].State == core.ApprovalApproved })
			if m.count("write") != 0 {
				t.Fatal("the stopped process went on")
			}
			if both {
				d.kill()
				p.kill()
				m.ok("continue", string(asked.RunID))
			} else {
				p.kill()
				if r := d.wait().want(0).result(); string(r.Result) != `"done"` {
					t.Errorf("result %s", r.Result)
				}
			}
			if m.count("write") != 3 {
				t.Errorf("calls %q", m.calls())
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
	s := m.terminal(usual, nil, []reply{
		typed(`ater: $`, "w"), typed(`gets "rec:write"[\s\S]*rule\? \[y\]es / \[n\]o: $`, "n"), typed(`ater: $`, "y"),
		typed(`ater: $`, "w"), typed(`rule\? \[y\]es / \[n\]o: $`, "y"),
	}, "execute", "--code", writes)
	if s.exit != 0 || m.count("write") != 3 {
		t.Fatalf("exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	harmless(t, s.text)
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
	m.ok("trust", "--yes")
	r := m.execute(8, writes)
	for _, more := range [][]string{nil, {"--json"}} {
		o := m.exit(2, append([]string{"continue", string(r.WorkflowID), "--approve", "--remember", "rule", "--yes"}, more...)...)
		if !strings.Contains(o.Stderr, "link out of the workspace") || strings.Contains(o.Stderr, "@@") {
			t.Errorf("it says: %s", o.Stderr)
		}
		if open := m.approvals(); len(open) == 0 || m.count("write") != 0 {
			t.Errorf("%d approvals wait, and %d calls were made", len(open), m.count("write"))
		}
	}
	m.json(8, "continue", string(r.WorkflowID), "--approve")
	if n := m.count("write"); n != 1 {
		t.Errorf("%d calls after an approval", n)
	}
}
