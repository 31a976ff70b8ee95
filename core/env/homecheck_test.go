//go:build unix

package env_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// A home that borrows from another one is refused: its configuration would speak
// for what it does not own.
func TestHomeCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(t *testing.T, first, second string) error
		says   string // empty: it is fine
	}{
		"Own":     {func(t *testing.T, _, second string) error { return os.WriteFile(second+"/pending.db", nil, 0o600) }, ""},
		"Missing": {func(t *testing.T, _, second string) error { return os.Remove(second) }, ""},
		"Whole": {func(t *testing.T, first, second string) error {
			_ = os.Remove(second)
			return os.Symlink(first, second)
		}, ""},
		"Config": {func(t *testing.T, first, second string) error {
			return os.Symlink(first+"/config.json", second+"/config.json")
		}, ""},
		"Database": {func(t *testing.T, first, second string) error {
			return os.Symlink(first+"/pending.db", second+"/pending.db")
		}, "symbolic link"},
		"Lock": {func(t *testing.T, first, second string) error {
			return os.Symlink(first+"/x", second+"/pending.db.lock")
		}, "symbolic link"},
		"Trust": {func(t *testing.T, first, second string) error { return os.Symlink(first+"/trust", second+"/trust") }, "symbolic link"},
		"Logs":  {func(t *testing.T, first, second string) error { return os.Symlink(first+"/logs", second+"/logs") }, "symbolic link"},
		"Commands": {func(t *testing.T, first, second string) error {
			return os.Symlink(first+"/commands", second+"/commands")
		}, "symbolic link"},
		"Writable": {func(t *testing.T, _, second string) error { return os.Chmod(second, 0o777) }, "written to by other users"},
		"HardLink": {func(t *testing.T, first, second string) error {
			return os.Link(first+"/pending.db", second+"/pending.db")
		}, "hard link"},
		"Pipe": {func(t *testing.T, _, second string) error {
			l, err := net.Listen("unix", second+"/pending.db")
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, "not a file"},
		"AnothersDB": {func(t *testing.T, _, second string) error { return given(t, second+"/server.db") }, "another user"},
		"Anothers":   {func(t *testing.T, _, second string) error { return given(t, second) }, "another user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			first, second := filepath.Join(root, "one"), filepath.Join(root, "two")
			for _, dir := range []string{first + "/trust", first + "/logs", second} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(first+"/pending.db", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(t, first, second); err != nil {
				t.Fatal(err)
			}
			err := env.Home{Dir: second}.Check()
			if tt.says == "" && err != nil || tt.says != "" && (core.CodeOf(err) != core.CodeInvalidConfig || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// given makes a file, or a folder that is there, somebody else's.
func given(t *testing.T, path string) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	return os.Chown(path, 12345, -1)
}

// A home names what pml has not put there.
func TestHomeForeign(t *testing.T) {
	t.Parallel()
	h := env.Home{Dir: t.TempDir()}
	for _, name := range []string{
		"pending.db", "pending.db.redo.2", "server.run.lock", "trust", "refused-local.json", ".new-123", ".backup-1", "flows", "notify.lock", // pml's
		"photos", "pendingdb", ".bashrc", "trusted",
	} {
		if err := os.WriteFile(filepath.Join(h.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.Foreign()
	if want := []string{".bashrc", "pendingdb", "photos", "trusted"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
