//go:build unix

package pmltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core/skiptest"
)

// OnDisk gives a machine a small file system of its own as home. Without the
// permission to mount one the test is skipped, or fails where nothing may be.
func (m *Machine) OnDisk(size string) {
	m.T.Helper()
	dir := filepath.Join(m.Dir, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		m.T.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		skiptest.Missing(m.T, fmt.Sprintf("cannot mount a small file system: %v %s", err, out))
	}
	m.T.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			m.T.Errorf("umount: %v %s", err, out)
		}
	})
	m.Home = filepath.Join(dir, "home")
	m.Env = append(m.Env, "PML_HOME="+m.Home)
}

// FillDisk takes what is left of a disk.
func FillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{64 << 10, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
}

// NewerFormat makes the database one of a later format: its meta bucket says 5
// where this pml writes 4.
func NewerFormat(t *testing.T, db string) {
	t.Helper()
	raw := ReadBytes(t, db)
	version := func(n byte) []byte { return append([]byte("version"), 0, 0, 0, 0, 0, 0, 0, n) }
	if !bytes.Contains(raw, version(4)) {
		t.Fatal("the format's version was not found")
	}
	Overwrite(t, db, bytes.ReplaceAll(raw, version(4), version(5)))
}
