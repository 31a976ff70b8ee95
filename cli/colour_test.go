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
