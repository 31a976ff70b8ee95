//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// onDisk gives a machine a small file system of its own as home. Without the
// permission to mount one the test is skipped, or fails where nothing may be.
func (m *machine) onDisk(size string) {
	m.t.Helper()
	dir := filepath.Join(m.Dir, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		missing(m.t, fmt.Sprintf("cannot mount a small file system: %v %s", err, out))
	}
	m.t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			m.t.Errorf("umount: %v %s", err, out)
		}
	})
	m.Home = filepath.Join(dir, "home")
	m.Env = append(m.Env, "PML_HOME="+m.Home)
}

// fill takes what is left of a disk.
func fill(t *testing.T, path string) {
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

// Scenario 27: the disk gets full in the middle of a run. The error says so,
// reading still works, and with space again the run goes on: nothing is lost,
// nothing runs twice.
func TestDisk_Full(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.onDisk("2m")
	m.configure(allowRec())
	gate, filler := filepath.Join(m.Dir, "go"), filepath.Join(m.Dir, "disk", "filler")
	p := m.start("execute", "--code", `
		await mcp.rec.inc({key: "a"});
		await mcp.rec.wait({file: "`+gate+`"});
		await mcp.rec.inc({key: "b", more: "x".repeat(100_000)}); // for which there is no room in the files
		return (await mcp.rec.inc({key: "c"})).count`)
	waitFor(t, "the script waits", func() bool { return m.count("wait") == 1 })
	fill(t, filler)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := p.wait().want(1)
	wants(t, o.Stderr, "disk is full", "free some space")
	_, id, ok := strings.Cut(o.Stderr, "next: pml continue ")
	if !ok {
		t.Fatalf("no next step in %s", o.Stderr)
	}
	if o.Stdout != "" || strings.Contains(o.Stderr, "level=") {
		t.Errorf("stdout %q, stderr %s", o.Stdout, o.Stderr)
	}
	wants(t, m.exit(1, "execute", "--code", `return "x".repeat(100_000)`).Stderr, "disk is full")
	wants(t, m.ok("workflows", "ls").Stdout, "interrupted")
	wants(t, m.exit(1, "doctor").Stdout, "nothing can be written", "no space left")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// The other one may have begun, if there was room in the files.
	if o = m.ok("continue", strings.TrimSpace(id)); o.Stdout != "1\n" {
		t.Errorf("continued: %q", o.Stdout)
	}
	if got := m.keys(); got != "a b c" {
		t.Errorf("calls %q", got)
	}
}

// Scenario 27: a home that cannot be written.
func TestDisk_ReadOnlyHome(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.onDisk("2m")
	m.ok("execute", "--code", "return 1")
	if out, err := exec.Command("mount", "-o", "remount,ro", filepath.Dir(m.Home)).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("cannot remount: %v %s", err, out))
	}
	for _, args := range [][]string{{"execute", "--code", "return 1"}, {"workflows", "ls"}, {"approvals", "ls"}} {
		wants(t, m.exit(1, args...).Stderr, "error: ", "read-only file system", "--home", "nothing was changed")
	}
	m.Env = append(m.Env, "PML_HOME="+m.Home+"/none")
	wants(t, m.exit(1, "execute", "--code", "return 1").Stderr, "read-only file system", "--home")
	m.ok("version")
}

// Scenario 27: a database that was cut off, overwritten or emptied, or that a
// newer pml wrote: an error that says what to do, and the file stays as it is.
func TestDisk_Database(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, db string)
		text   string
	}{
		{"Truncated", func(t *testing.T, db string) { truncate(t, db, 20_000) }, "cut off"},
		{"Stump", func(t *testing.T, db string) { truncate(t, db, 10) }, "damaged"},
		{"Emptied", func(t *testing.T, db string) { truncate(t, db, 0) }, "damaged"},
		{"Overwritten", func(t *testing.T, db string) { overwrite(t, db, bytes.Repeat([]byte("x"), 65536)) }, "damaged"},
		{"Newer", newer, "newer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := bareMachine(t)
			m.ok("execute", "--code", "return 1")
			db := filepath.Join(m.Home, "pending.db")
			c.damage(t, db)
			before := content(t, db)
			for _, args := range [][]string{{"execute", "--code", "return 1"}, {"workflows", "ls"}, {"approvals", "ls"}, {"continue", "@latest"}} {
				o := m.exit(1, args...)
				wants(t, o.Stderr, "error: ", c.text, "pending.db", "next: pml")
				if f := m.exit(1, append(args, "--json")...).fault(); f.Code != core.CodeStoreFailed && f.Code != core.CodeStoreNewer {
					t.Errorf("%v: code %s", args, f.Code)
				}
			}
			wants(t, m.exit(1, "doctor").Stdout, "fail", c.text)
			if !bytes.Equal(before, content(t, db)) {
				t.Error("the file was changed")
			}
			// Moved away, as the message says, pml starts anew.
			if err := os.Rename(db, db+".bad"); err != nil {
				t.Fatal(err)
			}
			m.ok("execute", "--code", "return 1")
		})
	}
}

// newer makes the database one of a later format: its meta bucket says 2
// where this pml writes 1.
func newer(t *testing.T, db string) {
	t.Helper()
	raw := content(t, db)
	version := func(n byte) []byte { return append([]byte("version"), 0, 0, 0, 0, 0, 0, 0, n) }
	if !bytes.Contains(raw, version(1)) {
		t.Fatal("the format's version was not found")
	}
	overwrite(t, db, bytes.ReplaceAll(raw, version(1), version(2)))
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, with []byte) {
	t.Helper()
	if err := os.WriteFile(path, with, 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// wants wants texts in another.
func wants(t testing.TB, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in:\n%s", text, in)
		}
	}
}
