package main

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTUI_DraftsSwept: what an editor had open when pml tui was killed is gone
// after the next start: it holds arguments of calls.
func TestTUI_DraftsSwept(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	dir := t.TempDir()
	start := func() *screenful {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		t.Cleanup(cancel)
		cmd := m.command(ctx, "tui", "--demo")
		cmd.Env = append(cmd.Env, "TMPDIR="+dir, "VISUAL=tail -f")
		return m.onScreen(80, 24, cmd)
	}
	drafts := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "pml-*", "approval-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := start()
	first.shows("release-notes")
	first.types("2")
	first.shows("MED")
	first.types("e")
	waitFor(t, "a file for the editor", func() bool { return len(drafts()) == 1 })
	send(t, first.cmd.Process.Pid, syscall.SIGKILL)
	first.end()
	if len(drafts()) != 1 {
		t.Fatal("it removed the file: nothing is left to be swept")
	}
	second := start()
	second.shows("release-notes")
	waitFor(t, "the end of the file", func() bool { return len(drafts()) == 0 })
	second.types("q")
}
