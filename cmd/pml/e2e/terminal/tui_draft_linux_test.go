package terminal_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// TestTUI_DraftsSwept: what an editor had open when pml tui was killed is gone
// after the next start: it holds arguments of calls.
func TestTUI_DraftsSwept(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	dir := t.TempDir()
	start := func() *pmltest.Emulator {
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.LongPatience)
		t.Cleanup(cancel)
		cmd := m.Command(ctx, "tui", "--demo")
		cmd.Env = append(cmd.Env, "TMPDIR="+dir, "VISUAL=tail -f")
		return m.OnScreen(80, 24, cmd)
	}
	drafts := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "pml-*", "approval-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := start()
	first.Shows("release-notes")
	first.Types("2")
	first.Shows("MED")
	first.Types("e")
	pmltest.WaitFor(t, "a file for the editor", func() bool { return len(drafts()) == 1 })
	send(t, first.Cmd.Process.Pid, syscall.SIGKILL)
	first.End()
	if len(drafts()) != 1 {
		t.Fatal("it removed the file: nothing is left to be swept")
	}
	second := start()
	second.Shows("release-notes")
	pmltest.WaitFor(t, "the end of the file", func() bool { return len(drafts()) == 0 })
	second.Types("q")
}
