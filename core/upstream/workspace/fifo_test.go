//go:build unix

package workspace_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Opening a pipe would wait for ever.
func TestServer_PipesAreRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t, nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for tool, a := range map[string]args{"read_file": {"path": "pipe"}, "edit_file": {"path": "pipe", "old": "a", "new": "b"}, "write_file": {"path": "pipe", "content": "a"}} {
		if _, err := run(t, dir, tool, a); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err := run(t, dir, "search", args{"query": "a"}); err != nil {
		t.Error(err)
	}
}
