package tui

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestSweepDrafts: folders of dead processes go, with what is in them; those of
// living ones stay, and so does whatever else is there.
func TestSweepDrafts(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	dead := draftsOf(cmd.Process.Pid)
	dir := t.TempDir()
	for _, name := range []string{dead + "1", dead + "2", draftsOf(os.Getpid()) + "1", draftsOf(os.Getppid()) + "1", "pml-draft-x-1", "pml-draft-0-1", "pml-123", dead[len("pml-"):]} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "approval.txt"), []byte("secret"), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, dead+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, dead+"link")); err != nil {
		t.Fatal(err)
	}
	sweepDrafts(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{dead + "file", dead + "link", draftsOf(os.Getpid()) + "1", draftsOf(os.Getppid()) + "1", "pml-draft-x-1", "pml-draft-0-1", "pml-123", dead[len("pml-"):]}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	sweepDrafts(filepath.Join(dir, "nowhere"))
}

// TestDraft_Named: a draft is in a folder that another process knows as ours.
func TestDraft_Named(t *testing.T) {
	t.Parallel()
	d, err := newDraft("a.json", "text", 0o400)
	if err != nil {
		t.Fatal(err)
	}
	defer d.remove()
	if name := filepath.Base(d.dir); name[:min(len(name), len(draftsOf(os.Getpid())))] != draftsOf(os.Getpid()) {
		t.Errorf("the folder is called %s", name)
	}
	sweepDrafts(filepath.Dir(d.dir))
	if _, err := os.Stat(d.file); err != nil {
		t.Error("it was swept while its process lives")
	}
}
