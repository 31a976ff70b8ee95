package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// busy is a machine on which something waits, runs, and has failed.
func busy() *fake {
	f := asked()
	f.pending[0].RunName = "nightly.ts"
	run := func(id core.ID, s core.RunState, name string, ago time.Duration) core.Run {
		return core.Run{ID: id, State: s, Name: name, CreatedAt: at.Add(-ago - 20*time.Second), UpdatedAt: at.Add(-ago), RequestedBy: core.Actor{Who: "ann", Via: core.ViaCLI}}
	}
	f.runs = []core.Run{
		run(runA, core.RunWaiting, "nightly.ts", time.Minute),
		run("8f3a91c2-0000-4000-8000-000000000003", core.RunRunning, "now.ts", time.Second),
		run("9f3a91c2-0000-4000-8000-000000000004", core.RunFailed, "broken.ts", 2*time.Hour),
		run("af3a91c2-0000-4000-8000-000000000005", core.RunFailed, "long-ago.ts", 48*time.Hour),
	}
	f.runs[2].Error = core.Errorf(core.CodeToolFailed, "no such\nfile \x1b[2J")
	f.world.connected = []api.ConnectedHost{{Client: core.Client{Name: "claude-code", Version: "2.1"}, Workspace: "/w", Transport: "stdio", PID: 7, Since: at}}
	agent := core.Actor{Who: "ann", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}
	f.audit = []core.AuditRow{{Seq: 1, At: at, Outcome: core.ApprovalApproved, By: agent}, {Seq: 2, At: at, Outcome: core.OutcomeRefused, By: agent}, {Seq: 3, At: at, Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}}}
	f.config = `{"approvals":{"decider":"any","decider_from":"default","agent_may":"medium"},"paths":{"workspace":"/w"}}`
	return f
}

// One screen says what waits, runs and failed, and who decides.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: busy(), width: 80}).run("status").want(t, 0).has(t, "out",
		"waiting (2)  pml approve", "  52e3f18c  low     write a", "nightly.ts", "59s left", "running (1)", "now.ts",
		"failed (1)", "broken.ts", "no such", "who decides  /w", "not what is of high risk", "nobody has chosen that", "agents have made 1 decision in the last day")
	s.has(t, "out", "connected (1)", "claude-code 2.1", "/w", "stdio, process 7")
	// Each time says what it means; that of a run is its AGE in pml workflows ls.
	s.has(t, "out", "59s left", "now.ts  started 21s ago", "broken.ts  started 2h00m ago", "process 7  for 0s")
	if strings.Contains(s.out, "long-ago") || strings.Count(s.out, "\n") > 24 {
		t.Error(s.out)
	}
	f := busy()
	f.config = `{"approvals":{"decider":"human","decider_from":"workspace","agent_may":"medium"}}`
	s = (&shell{fake: f}).run("status").want(t, 0).has(t, "out", "only people")
	if strings.Contains(s.out, "nobody has chosen") {
		t.Error(s.out)
	}
	(&shell{}).run("status").want(t, 0).has(t, "out", "nothing waits for a decision")
	s = (&shell{fake: busy()}).run("status", "--json").want(t, 0)
	var got struct {
		Waiting []core.Approval
		Decides struct {
			Chosen   bool
			ByAgents int `json:"by_agents"`
		}
	}
	if err := json.Unmarshal([]byte(s.out), &got); err != nil || len(got.Waiting) != 2 || got.Decides.Chosen || got.Decides.ByAgents != 1 {
		t.Errorf("%v %+v", err, got)
	}
}

// The label of what failed says what it counts, where more have failed in all, as pml tui counts.
func TestStatus_FailedInAll(t *testing.T) {
	t.Parallel()
	f := busy()
	(&shell{fake: f}).run("status").want(t, 0).has(t, "out", "failed (1)  in the last day and not done since, of 2 in all; pml retry ID")
	f.runs = f.runs[:3]
	(&shell{fake: f}).run("status").want(t, 0).has(t, "out", "failed (1)  in the last day; pml retry ID")
}

// What failed in its own program is not tried again by pml retry, which would refuse it.
func TestStatus_FailedNext(t *testing.T) {
	t.Parallel()
	for code, want := range map[core.Code]string{core.CodeToolFailed: "pml retry ID runs again what failed", core.CodeScript: "mend the program and run it anew with pml run"} {
		f := busy()
		f.runs[2].Error = core.Errorf(code, "no")
		(&shell{fake: f, tty: true}).run("status").want(t, 0).has(t, "out", want)
	}
}

// What is of another workspace than this one says of which.
func TestStatus_Workspaces(t *testing.T) {
	t.Parallel()
	f := busy()
	f.pending[0].Workspace, f.pending[0].RunName, f.pending[1].Workspace = "/src/shop", "elsewhere.ts", "/w"
	f.runs[1].Workspace, f.runs[2].Workspace = "/w", "/src/blog"
	s := (&shell{fake: f, tty: true, width: 110}).run("status").want(t, 0).has(t, "out", "in shop", "in blog")
	for line := range strings.Lines(s.out) {
		if strings.Contains(line, " in ") != (strings.Contains(line, "elsewhere.ts") || strings.Contains(line, "broken.ts")) && !strings.Contains(line, "in the last day") {
			t.Error(line)
		}
	}
}

// What failed and was then done by a newer run of the same name, in the same workspace, is
// no more to look at.
func TestStatus_DoneSince(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		done   func(r *core.Run)
		listed bool
	}{
		"Newer":     {func(*core.Run) {}, false},
		"Older":     {func(r *core.Run) { r.CreatedAt = at.Add(-3 * time.Hour) }, true},
		"Other":     {func(r *core.Run) { r.Name = "other.ts" }, true},
		"Elsewhere": {func(r *core.Run) { r.Workspace = "/elsewhere" }, true},
		"NotDone":   {func(r *core.Run) { r.State = core.RunAborted }, true},
	} {
		f := busy()
		done := f.runs[2]
		done.ID, done.State, done.CreatedAt, done.Error = "bf3a91c2-0000-4000-8000-000000000006", core.RunComplete, at.Add(-time.Minute), nil
		tt.done(&done)
		f.runs = append(f.runs, done)
		s := (&shell{fake: f}).run("status").want(t, 0)
		if strings.Contains(s.out, "broken.ts") != tt.listed {
			t.Errorf("%s: %s", name, s.out)
		}
	}
}

// A DAG that has failed is listed with the layer that did so: those behind were skipped.
func TestWorkflowsLs_FailedLayer(t *testing.T) {
	t.Parallel()
	r := core.Run{ID: runA, Kind: core.KindDAG, State: core.RunFailed, Name: "build", CreatedAt: at, TotalLayers: 3, CurrentLayer: 3}
	layer := func(i int, s core.TaskState) core.Layer {
		return core.Layer{Index: i, Tasks: []core.Task{{ID: "t", Tool: "a:b", State: s}}}
	}
	f := &fake{runs: []core.Run{r}, workflow: core.Workflow{Run: r, Layers: []core.Layer{layer(0, core.TaskSuccess), layer(1, core.TaskError), layer(2, core.TaskSkipped)}}}
	(&shell{fake: f}).run("workflows", "ls").want(t, 0).has(t, "out", "2/3")
	(&shell{fake: f}).run("workflows", "show", "7f3a91").has(t, "out", "2/3")
}

// Approvals that one decision can be about are one row, as in the inbox; one of another
// risk is not among them.
func TestStatus_Alike(t *testing.T) {
	t.Parallel()
	f := busy()
	f.pending = nil
	for i, risk := range []core.Risk{core.RiskMedium, core.RiskMedium, core.RiskHigh, core.RiskMedium} {
		p := permission(risk)
		p.ID, p.Tool = core.ID(fmt.Sprintf("%d2e3f18c-0000-4000-8000-000000000002", i)), "workspace:write_file"
		p.Context = json.RawMessage(fmt.Sprintf(`{"arguments":{"path":"docs/a%d.md","content":"x"}}`, i))
		f.pending = append(f.pending, p)
	}
	s := (&shell{fake: f, width: 80}).run("status").want(t, 0).has(t, "out", "waiting (4)", "  02e3f18c  medium  3 × write_file docs/*.md", "  22e3f18c  high    write_file docs/a2.md")
	if strings.Contains(s.out, "12e3f18c") || strings.Contains(s.out, "32e3f18c") {
		t.Error(s.out)
	}
}

// pml alone shows it where somebody sits who was here before, and something waits.
func TestStatus_PmlAlone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := map[string]string{"PML_HOME": home, "PML_WORKSPACE": home}
	if err := os.WriteFile(filepath.Join(home, ".pml.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	(&shell{tty: true, env: env, fake: busy()}).run().want(t, 0).has(t, "out", "waiting (2)").has(t, "err", "pml --help")
	for name, sh := range map[string]*shell{
		"pipe": {env: env, fake: busy()}, "nothing waits": {tty: true, env: env}, "cannot be opened": {tty: true, env: env, openErr: core.Errorf(core.CodeInternal, "no")},
		"never used": {tty: true, env: map[string]string{"PML_HOME": filepath.Join(home, "none"), "PML_WORKSPACE": home}, fake: busy()},
	} {
		sh.run().want(t, 0).has(t, "out", "Usage:")
		if sh.err != "" || (name == "pipe" || name == "never used") && sh.opened > 0 {
			t.Errorf("%s: opened %d times: %s", name, sh.opened, sh.err)
		}
	}
}

// What is halted is said first; to halt and to resume are one command each, and a person's
// to take back.
func TestHalt(t *testing.T) {
	t.Parallel()
	f := busy()
	(&shell{fake: f}).run("halt", "--reason", "enough").want(t, 0).has(t, "out", "this machine: halted by", ": enough").has(t, "err", "pml resume")
	s := (&shell{fake: f}).run("status").want(t, 0)
	if !strings.HasPrefix(s.out, "ALL CALLS ARE HALTED") {
		t.Error(s.out)
	}
	(&shell{fake: f}).run("status", "--json").want(t, 0).has(t, "out", `"halted": [`)
	(&shell{fake: f}).run("resume").want(t, 8).has(t, "err", "only a person")
	if len(f.halts) != 1 {
		t.Fatal("it was resumed")
	}
	(&shell{fake: f, tty: true, stdin: "n\n"}).run("resume").want(t, 9)
	if len(f.halts) != 1 {
		t.Fatal("it was resumed")
	}
	(&shell{fake: f, tty: true, stdin: "y\n"}).run("resume").want(t, 0).has(t, "err", "this machine: halted by", "let calls go on?").has(t, "out", "calls of this machine go on")
	(&shell{fake: f}).run("resume", "--json").want(t, 0).has(t, "out", "[]")
	(&shell{fake: f}).run("resume").want(t, 0).has(t, "out", "nothing is halted")
}

// A run that waits for decisions elsewhere says once that calls are halted: no event does.
func TestRun_WaitsWhileHalted(t *testing.T) {
	t.Parallel()
	for _, side := range []core.Side{core.SideClient, core.SideServer} {
		halt := core.Halt{Side: core.SideClient, By: core.Actor{Who: "ann"}, At: at, Reason: "coffee"}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		f := &fake{
			halts: []core.Halt{halt}, block: true, workflow: core.Workflow{Run: core.Run{ID: runA, Side: side}},
			events: []core.Event{{Type: core.EventWorkflowStart, RunID: runA}},
		}
		s := (&shell{fake: f, ctx: ctx}).run("run", "--code", "return 1", "--on-approval", "wait")
		cancel()
		const said = "warning: calls are halted by ann since 2026-03-01 12:00:00Z: coffee; pml resume lets them go on"
		if n := strings.Count(s.err, said); n != 1 && side == core.SideClient || n != 0 && side == core.SideServer {
			t.Errorf("a run of the %s says %d times that calls are halted: %s", side, n, s.err)
		}
	}
}
