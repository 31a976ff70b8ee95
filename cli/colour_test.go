package cli_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// The card, the run and the doctor have colour on a terminal that wants it, fit its
// width, and are plain elsewhere.
func TestColour_Cards(t *testing.T) {
	t.Parallel()
	f := func() *fake {
		f := waits(core.RiskMedium)
		f.pending[0].RequestedBy = core.Actor{Who: strings.Repeat("somebody ", 12)}
		f.workflow = core.Workflow{Run: core.Run{ID: runA, State: core.RunWaiting}}
		f.checks = []api.Check{{Name: "node", Status: "fail", Detail: strings.Repeat("not found ", 12), Next: []string{"apt"}}}
		return f
	}
	for _, args := range [][]string{{"doctor"}, {"approvals", "show", "52e3"}, {"approve", "52e3", "--yes"}, {"wf", "show", "7f3a91"}} {
		env := map[string]string{"TERM": "xterm"}
		shown := (&shell{tty: true, width: 60, env: env, fake: f()}).run(args...)
		if !strings.Contains(shown.out+shown.err, "\x1b[") {
			t.Errorf("%v: no colour: %q", args, shown.out+shown.err)
		}
		env["NO_COLOR"] = "1"
		plain := (&shell{tty: true, width: 60, env: env, fake: f()}).run(args...)
		for line := range strings.Lines(plain.out + plain.err) {
			if strings.Contains(line, "\x1b") || layout.Width(strings.TrimSuffix(line, "\n")) > 60 && strings.Contains(line, " somebody") {
				t.Errorf("%v: %q", args, line)
			}
		}
		if pipe := (&shell{fake: f()}).run(args...); strings.Contains(pipe.out+pipe.err, "\x1b") {
			t.Errorf("%v: colour in a pipe", args)
		}
	}
}

// TestColour_Words: what went wrong is red in the view of a run, what a change brings is
// green and what it takes red, and a flow that is in force is green.
func TestColour_Words(t *testing.T) {
	t.Parallel()
	f := &fake{
		workflow: core.Workflow{Run: core.Run{ID: runA, State: core.RunFailed, Error: core.Errorf(core.CodeInternal, "no")}},
		trust:    api.TrustState{Workspace: "/w", Diff: "@@ line 1 @@\n+allow\n-deny\n", Content: "{}"},
	}
	for want, args := range map[string][]string{
		"error      \x1b[31m":                           {"wf", "show", "7f3a91"},
		"\x1b[32m+allow\x1b[0m\n\x1b[31m-deny\x1b[0m\n": {"trust", "--show"},
	} {
		s := (&shell{fake: f, tty: true, width: 80, env: xterm}).run(args...)
		if !strings.Contains(s.out, want) {
			t.Errorf("%v: %q", args, s.out)
		}
	}
	claude := host("claude", api.HostNew)
	claude.Change.Notes = []string{strings.Repeat("word ", 12)}
	s := (&shell{fake: hosted(claude), tty: true, width: 40, env: xterm, stdin: "\nn\n"}).run("init")
	if !strings.Contains(s.err, "\x1b[32m  +  \"pml\": {}\x1b[0m\n") || !strings.Contains(s.err, "word\n    word") {
		t.Errorf("what changes in a host: %q", s.err)
	}
	for word, want := range map[string]layout.Style{"on": layout.Good, "audit": layout.Warn, "not trusted": layout.Warn, "faults": layout.Bad, "off": layout.Dim} {
		if got := layout.StyleOf(word); got != want {
			t.Errorf("%s: %v", word, got)
		}
	}
}
