package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// busy is a machine on which something waits, runs, and has failed.
func busy() *fake {
	f := asked()
	f.pending[0].RunName = "nightly.ts"
	run := func(id core.ID, s core.RunState, name string, ago time.Duration) core.Run {
		return core.Run{ID: id, State: s, Name: name, UpdatedAt: at.Add(-ago), RequestedBy: core.Actor{Who: "ann", Via: core.ViaCLI}}
	}
	f.runs = []core.Run{
		run(runA, core.RunWaiting, "nightly.ts", time.Minute),
		run("8f3a91c2-0000-4000-8000-000000000003", core.RunRunning, "now.ts", time.Second),
		run("9f3a91c2-0000-4000-8000-000000000004", core.RunFailed, "broken.ts", 2*time.Hour),
		run("af3a91c2-0000-4000-8000-000000000005", core.RunFailed, "long-ago.ts", 48*time.Hour),
	}
	f.runs[2].Error = core.Errorf(core.CodeToolFailed, "no such\nfile \x1b[2J")
	agent := core.Actor{Who: "ann", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}
	f.audit = []core.AuditRow{{Seq: 1, At: at, Outcome: core.ApprovalApproved, By: agent}, {Seq: 2, At: at, Outcome: core.OutcomeRefused, By: agent}, {Seq: 3, At: at, Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}}}
	f.config = `{"approvals":{"decider":"any","decider_from":"default","agent_may":"medium"},"paths":{"workspace":"/w"}}`
	return f
}

// One screen says what waits, runs and failed, and who decides.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: busy(), width: 80}).run("status").want(t, 0).has(t, "out",
		"waiting (2)  pml approve", "  52e3f18c  low     write a", "nightly.ts", "0:59", "running (1)", "now.ts",
		"failed (1)", "broken.ts", "no such", "who decides  /w", "not what is of high risk", "nobody has chosen that", "agents have made 1 decision in the last day")
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

// pml alone shows it where somebody sits who was here before, and something waits.
func TestStatus_PmlAlone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := map[string]string{"PML_HOME": home}
	(&shell{tty: true, env: env, fake: busy()}).run().want(t, 0).has(t, "out", "waiting (2)").has(t, "err", "pml --help")
	for name, sh := range map[string]*shell{
		"pipe": {env: env, fake: busy()}, "nothing waits": {tty: true, env: env}, "cannot be opened": {tty: true, env: env, openErr: core.Errorf(core.CodeInternal, "no")},
		"never used": {tty: true, env: map[string]string{"PML_HOME": filepath.Join(home, "none")}, fake: busy()},
	} {
		sh.run().want(t, 0).has(t, "out", "Usage:")
		if sh.err != "" || (name == "pipe" || name == "never used") && sh.opened > 0 {
			t.Errorf("%s: opened %d times: %s", name, sh.opened, sh.err)
		}
	}
}
