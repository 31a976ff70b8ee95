package cli_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// At a terminal a message is broken where words end, never inside of one; the command
// that comes next stays on its line, and without a terminal nothing is broken.
func TestMessages_Folded(t *testing.T) {
	t.Parallel()
	const long = "the flow docs.json would check this call, and is not trusted on this machine or has changed since; look at it and trust it"
	fails := func() *fake {
		return &fake{failWith: core.Errorf(core.CodeNotTrusted, long).WithNext("pml", "trust", "--home", strings.Repeat("a", 60))}
	}
	s := (&shell{tty: true, width: 40, fake: fails()}).run("workflows", "rm", "7f3a91c2").want(t, 8)
	for line := range strings.Lines(s.err) {
		if line = strings.TrimSuffix(line, "\n"); layout.Width(line) > 40 && !strings.HasPrefix(line, "next: ") {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
	if got := strings.Join(strings.Fields(s.err), " "); !strings.Contains(got, long) {
		t.Errorf("not the whole message: %q", got)
	}
	(&shell{fake: fails()}).run("workflows", "rm", "7f3a91c2").want(t, 8).has(t, "err", "error: "+long+"\n")
}
