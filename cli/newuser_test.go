package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// "pml" alone fits on the smallest usual terminal, however much there is, and says how
// to see the rest.
func TestAlone_FitsScreen(t *testing.T) {
	t.Parallel()
	f := busy()
	f.pending = nil
	for i := range 30 {
		p := permission(core.RiskHigh)
		p.ID, p.RunID = core.ID(fmt.Sprintf("%02de3f18-0000-4000-8000-000000000002", i)), core.ID(fmt.Sprintf("%02da91c2-0000-4000-8000-000000000002", i))
		p.Tool, p.Context = "workspace:delete_file", json.RawMessage(fmt.Sprintf(`{"arguments":{"path":"%d.md"}}`, i))
		f.pending = append(f.pending, p)
		for _, s := range []core.RunState{core.RunRunning, core.RunInterrupted, core.RunFailed} {
			f.runs = append(f.runs, core.Run{ID: p.RunID, Name: "r.ts", State: s, UpdatedAt: at, Error: core.Errorf(core.CodeToolFailed, "no")})
		}
	}
	home := t.TempDir()
	s := (&shell{tty: true, env: map[string]string{"PML_HOME": home}, fake: f, width: 80}).run().want(t, 0).has(t, "out",
		"waiting (30)", "more: pml approvals ls", "more: pml workflows ls --state running", "more: pml workflows ls --state failed").has(t, "err", "pml status says more")
	if n := strings.Count(s.out+s.err, "\n"); n > 23 {
		t.Errorf("%d lines:\n%s%s", n, s.out, s.err)
	}
}

// Where nothing is configured, pml alone at a terminal says in less than a screen what it
// is and where to begin; else it prints its help.
func TestAlone_First(t *testing.T) {
	t.Parallel()
	home, folder := t.TempDir(), t.TempDir()
	alone := func(tty bool) *shell {
		return (&shell{tty: tty, env: map[string]string{"PML_HOME": home, "PML_WORKSPACE": folder}, fake: &fake{}, width: 80}).run().want(t, 0)
	}
	s := alone(true).has(t, "out", "pml init", "pml tui --demo", "pml run --code", "pml --help")
	if n := strings.Count(s.out+s.err, "\n"); n > 23 {
		t.Errorf("%d lines:\n%s%s", n, s.out, s.err)
	}
	for line := range strings.Lines(s.out) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("too wide: %q", line)
		}
	}
	alone(false).has(t, "out", "Set up:")
	if err := os.WriteFile(filepath.Join(folder, ".pml.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone(true).has(t, "out", "Set up:")
}

// A run that a halt has stopped is called so everywhere, and each run that has stopped
// says how it goes on.
func TestShow_Stopped(t *testing.T) {
	t.Parallel()
	halt := core.Halt{Side: core.SideClient, By: core.Actor{Who: "ann"}, At: at, Reason: "coffee"}
	show := func(r core.Run) *shell {
		r.ID, r.Name, r.CreatedAt, r.UpdatedAt = runA, "poll.ts", at, at
		f := &fake{halts: []core.Halt{halt}, workflow: core.Workflow{Run: r}}
		f.runs = []core.Run{r}
		return &shell{fake: f, tty: true, width: 60}
	}
	stopped := core.Run{State: core.RunWaiting, Halted: &halt}
	show(stopped).run("workflows", "show", string(runA)).want(t, 0).has(t, "out", "state      halted", "halted by ann", "coffee", "next: pml resume")
	show(stopped).run("status").want(t, 0).has(t, "out", "halted (1)", "poll.ts")
	show(core.Run{State: core.RunInterrupted}).run("workflows", "show", string(runA)).want(t, 0).has(t, "out", "next: pml continue "+runA.Short())
	failed := core.Run{State: core.RunFailed, Error: core.Errorf(core.CodeToolFailed, "ENOENT: no such file or directory, open '/tmp/a/rather/long/path/missing.txt'")}
	s := show(failed).run("workflows", "show", string(runA)).want(t, 0).has(t, "out", "next: pml retry "+runA.Short())
	for line := range strings.Lines(s.out) {
		if len(strings.TrimSpace(line)) > 60 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
}

// What pml status and pml approve call waiting, pml approvals ls lists, also when its
// time is over; what is decided expires no more.
func TestApprovals_Expired(t *testing.T) {
	t.Parallel()
	f := asked()
	over := at.Add(-time.Minute)
	f.pending[0].ExpiresAt, f.pending[0].State = &over, core.ApprovalExpired
	(&shell{fake: f}).run("approvals", "ls").want(t, 0).has(t, "out", f.pending[0].ID.Short(), "expired")
	f.pending[0].State = core.ApprovalDenied
	f.pending[0].DecidedBy = &core.DecidedBy{At: at, Reason: "keep it"}
	s := (&shell{fake: f}).run("approvals", "show", string(f.pending[0].ID)).want(t, 0).has(t, "out", "denied", "keep it")
	if strings.Contains(s.out, "  expires") {
		t.Error(s.out)
	}
}

// The intent in a DAG's file names its run; one on the command line comes before it.
func TestExecute_IntentOfDAG(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dag.yaml")
	if err := os.WriteFile(file, []byte("intent: collect the notes\ntasks:\n  - {id: a, tool: fs:read, arguments: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string][]string{"collect the notes": nil, "other": {"--intent", "other"}} {
		f := &fake{}
		(&shell{fake: f}).run(append([]string{"execute", file}, more...)...)
		if len(f.executed) != 1 || f.executed[0].Intent != want {
			t.Errorf("%v: %+v", more, f.executed)
		}
	}
}

// namedRuns is a fake with two runs of one name and one of another.
func namedRuns() *fake {
	f := &fake{}
	for i, name := range []string{"poll.ts", "poll.ts", "nightly report"} {
		id := core.ID(fmt.Sprintf("%da91c2aa-0000-4000-8000-000000000002", i))
		f.runs = append(f.runs, core.Run{ID: id, Name: name, State: core.RunComplete, CreatedAt: at, Workspace: "/w"})
	}
	f.runs[1].State = core.RunFailed
	return f
}

// Words choose among the runs, as / does on the screen: each is in what a run shows.
func TestWorkflows_Words(t *testing.T) {
	t.Parallel()
	(&shell{fake: namedRuns()}).run("workflows", "ls", "POLL", "fail").want(t, 0).has(t, "out", "1a91c2aa").lacks(t, "0a91c2aa", "nightly")
	(&shell{fake: namedRuns()}).run("workflows", "ls", "night").want(t, 0).has(t, "out", "2a91c2aa").lacks(t, "poll")
	(&shell{fake: namedRuns()}).run("workflows", "ls", "weekly").want(t, 0).has(t, "err", "no run shows weekly")
	s := (&shell{fake: namedRuns()}).run("workflows", "ls", "poll", "--limit", "1", "--json").want(t, 0).has(t, "out", `"next": "0a91c2aa-`)
	if strings.Contains(s.out, "1a91c2aa") {
		t.Error(s.out)
	}
}

// What looks at a run takes its name where one run alone has it; what decides wants an
// id, and says whose the name is.
func TestWorkflows_ByName(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"show", "watch", "logs", "result"} {
		f := namedRuns()
		f.below = map[core.ID]core.Workflow{f.runs[2].ID: {Run: f.runs[2]}}
		(&shell{fake: f}).run("workflows", cmd, "Nightly Report").want(t, 0)
		(&shell{fake: f}).run("workflows", cmd, "poll.ts").want(t, 2).has(t, "err", "2 runs of this workspace", "0a91c2aa", "1a91c2aa (failed")
	}
	for _, args := range [][]string{{"abort", "poll.ts"}, {"retry", "poll.ts"}, {"continue", "poll.ts"}, {"workflows", "rm", "poll.ts"}, {"approve", "nightly report"}} {
		(&shell{fake: namedRuns()}).run(args...).want(t, 3).has(t, "err", "is a name", "a91c2aa")
	}
	// The command that comes next has the ID where one run alone has the name.
	for _, tt := range []struct {
		args []string
		next string
	}{
		{[]string{"abort", "nightly report"}, "pml abort 2a91c2aa"},
		{[]string{"abort", "--reason", "nightly report", "Nightly Report"}, "pml abort --reason 'nightly report' 2a91c2aa"},
		{[]string{"abort", "poll.ts"}, "pml workflows ls poll.ts"},
	} {
		(&shell{fake: namedRuns()}).run(tt.args...).want(t, 3).has(t, "err", "next: "+tt.next+"\n")
	}
	elsewhere := namedRuns()
	elsewhere.runs[2].Workspace = "/other"
	(&shell{fake: elsewhere}).run("workflows", "show", "nightly report").want(t, 3).has(t, "err", "nightly report")
}

// lacks fails where the output has one of the parts.
func (s *shell) lacks(t *testing.T, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(s.out+s.err, p) {
			t.Errorf("%q is in the output:\n%s%s", p, s.out, s.err)
		}
	}
}

// A no at a terminal is asked once for its reason: what asked reads it. Enter is none, and
// where nobody sits nothing more is asked.
func TestPrompt_ReasonOfNo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ typed, want string }{
		"Reason": {"n\nthe wrong folder\n", "the wrong folder"}, "None": {"n\n\n", ""}, "Ends": {"n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := asked()
			f.settles = true
			f.pending = f.pending[:1]
			s := (&shell{fake: f, tty: true, stdin: test.typed}).run("approve")
			got := s.decisions()
			if len(got) != 1 || got[0].Approve || got[0].Reason != test.want || f.went[0].Reason != test.want {
				t.Errorf("%+v", f.went)
			}
			s.has(t, "err", "reason (enter sends the no, also without one): ")
		})
	}
	f := asked()
	f.pending = f.pending[:1]
	s := (&shell{fake: f, stdin: "n\n"}).run("approve")
	s.lacks(t, "reason (enter")
}

// Init that finds no agent and no server says what to do all the same.
func TestInit_NothingFound(t *testing.T) {
	t.Parallel()
	(&shell{fake: &fake{}, tty: true, stdin: "\n"}).run("init", "--decider", "human").want(t, 0).has(t, "err", "next: pml run --code", "next: pml servers add --help")
	s := (&shell{fake: &fake{world: world{list: []api.ServerInfo{{Name: "files", Kind: "npm"}}}}, tty: true}).run("init", "--decider", "human").want(t, 0)
	if strings.Contains(s.err, "servers add") {
		t.Error(s.err)
	}
}

// What a failed run says of each call goes on one step deeper where the terminal ends, and
// never within a word.
func TestErrors_Fold(t *testing.T) {
	t.Parallel()
	e := core.Errorf(core.CodeToolFailed, "two calls failed")
	for _, id := range []core.ID{"c1", "c2"} {
		e.Failures = append(e.Failures, core.Failure{TaskID: string(id), Tool: "workspace:read_file", Error: `cannot read "no-such-folder/with-a-long-name/a.txt": it does not exist`})
	}
	s := (&shell{fake: &fake{errs: []error{e}}, tty: true, width: 60}).run("execute", "--code", "x").has(t, "err", "  c1, c2 (workspace:read_file)", "\n    \"no-such-folder/with-a-long-name/a.txt\": it does not")
	for line := range strings.Lines(s.err) {
		if len(strings.TrimRight(line, "\n")) > 60 {
			t.Errorf("too wide: %q", line)
		}
	}
	(&shell{fake: &fake{errs: []error{e}}}).run("execute", "--code", "x").has(t, "err", `  c1, c2 (workspace:read_file): cannot read "no-such-folder/with-a-long-name/a.txt": it does not exist`)
}

// TestErrors_Folded: calls that failed with the same words are one line, and of many
// different failures the error lists some and says how many there are.
func TestErrors_Folded(t *testing.T) {
	t.Parallel()
	e := core.Errorf(core.CodeCallLimit, "the run made more than 10000 calls (limits.calls)")
	for i := range 10000 {
		e.Failures = append(e.Failures, core.Failure{TaskID: fmt.Sprint("c", i+1), Tool: "a:b", Error: "it is denied"})
	}
	for i := range 25 {
		e.Failures = append(e.Failures, core.Failure{TaskID: fmt.Sprint("d", i+1), Tool: "a:b", Error: fmt.Sprint("no file ", i)})
	}
	s := (&shell{fake: &fake{errs: []error{e}}}).run("execute", "--code", "x").
		has(t, "err", "\n  c1 … c10000, 10000 calls (a:b): it is denied\n  d1 (a:b): no file 0\n", "\n  d19 (a:b): no file 18\n  and 6 other failures")
	s.lacks(t, "no file 19")
}

// --args shows what each call was called with, whole, below its line; without it a line has
// the argument that tells most.
func TestShow_Args(t *testing.T) {
	t.Parallel()
	f := func() *fake {
		f := manyRuns()
		f.workflow = core.Workflow{Run: core.Run{ID: runA, State: core.RunComplete}, Layers: []core.Layer{{Tasks: []core.Task{
			{ID: "c1", Tool: "fs:write", State: core.TaskSuccess, Arguments: json.RawMessage(`{"path":"a.txt","content":"one\ntwo"}`)},
			{ID: "c2", Tool: "fs:ls", State: core.TaskSuccess},
			{ID: "c3", Tool: "fs:rm", State: core.TaskSuccess, Arguments: json.RawMessage(`{"path":"x.txt"}`), Sent: json.RawMessage(`{"path":"y.txt"}`)},
		}}}}
		return f
	}
	s := (&shell{fake: f()}).run("workflows", "show", string(runA), "--args").want(t, 0).has(t, "out", "  c1  write a.txt", "    path     a.txt\n", "| one\n", "| two\n", "  c2  ls",
		"  c3  rm y.txt", "    path  y.txt\n      changed before it was sent, from\n    path  x.txt\n")
	if plain := (&shell{fake: f()}).run("workflows", "show", string(runA)).want(t, 0); strings.Contains(plain.out, "| two") || !strings.HasPrefix(s.out, plain.out[:strings.Index(plain.out, "layer 1")]) {
		t.Errorf("%s", plain.out)
	}
	(&shell{}).run("workflows", "show", "--help").want(t, 0).has(t, "out", "--args")
}

// Where people decide, what a program reads names no command as its own that would be
// refused to it, and a text for nobody at a terminal says whose it is.
func TestNext_PeopleDecide(t *testing.T) {
	t.Parallel()
	p := permission(core.RiskMedium)
	p.Human = true
	f := func() *fake { return &fake{results: []api.Result{waiting(p)}} }
	s := (&shell{fake: f()}).run("execute", "--code", "x", "--json").want(t, 8)
	var got struct {
		Next       []string   `json:"next"`
		Commands   [][]string `json:"commands"`
		AtTerminal [][]string `json:"at_terminal"`
	}
	if err := json.Unmarshal([]byte(s.out), &got); err != nil {
		t.Fatal(err)
	}
	wait := []string{"pml", "continue", "7f3a91c2", "--on-approval", "wait"}
	if !slices.Equal(got.Next, wait) || len(got.Commands) != 1 || len(got.AtTerminal) != 2 || got.AtTerminal[0][3] != "--approve" {
		t.Errorf("%+v", got)
	}
	(&shell{fake: f()}).run("execute", "--code", "x").want(t, 8).has(t, "err", "next, for a person at a terminal: pml continue 7f3a91c2 --approve\n")
	(&shell{fake: f(), tty: true, stdin: "l\n"}).run("execute", "--code", "x").want(t, 8).has(t, "err", "next: pml continue 7f3a91c2 --approve\n")
}
