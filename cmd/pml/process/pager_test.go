package process

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestPager: a text goes to the command of PAGER, which may have arguments.
func TestPager(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no pager of this kind on Windows")
	}
	file := filepath.Join(t.TempDir(), "paged")
	page := pager(func(name string) (string, bool) { return "cat > '" + file + "'", name == "PAGER" })
	if err := page(t.Context(), "all of it\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "all of it\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := pager(func(string) (string, bool) { return "false", true })(t.Context(), "x"); err == nil {
		t.Error("a pager that fails is no error")
	}
}
