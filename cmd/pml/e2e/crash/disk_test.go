//go:build unix

package crash_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// Scenario 27: the disk gets full in the middle of a run. The error says so,
// reading still works, and with space again the run goes on: nothing is lost,
// nothing runs twice.
func TestDisk_Full(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.OnDisk("2m")
	m.Configure(pmltest.AllowRec())
	gate, filler := filepath.Join(m.Dir, "go"), filepath.Join(m.Dir, "disk", "filler")
	p := m.Start("execute", "--code", `
		await mcp.rec.inc({key: "a"});
		await mcp.rec.wait({file: "`+gate+`"});
		await mcp.rec.inc({key: "b", more: "x".repeat(100_000)}); // for which there is no room in the files
		return (await mcp.rec.inc({key: "c"})).count`)
	pmltest.WaitFor(t, "the script waits", func() bool { return m.Count("wait") == 1 })
	pmltest.FillDisk(t, filler)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := p.Wait().Want(1)
	pmltest.Wants(t, o.Stderr, "disk is full", "free some space")
	_, id, ok := strings.Cut(o.Stderr, "next: pml continue ")
	if !ok {
		t.Fatalf("no next step in %s", o.Stderr)
	}
	if o.Stdout != "" || strings.Contains(o.Stderr, "level=") {
		t.Errorf("stdout %q, stderr %s", o.Stdout, o.Stderr)
	}
	pmltest.Wants(t, m.Exit(1, "execute", "--code", `return "x".repeat(100_000)`).Stderr, "disk is full")
	pmltest.Wants(t, m.OK("workflows", "ls").Stdout, "interrupted")
	pmltest.Wants(t, m.Exit(1, "doctor").Stdout, "nothing can be written", "no space left")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// The other one may have begun, if there was room in the files.
	if o = m.OK("continue", strings.TrimSpace(id)); o.Stdout != "1\n" {
		t.Errorf("continued: %q", o.Stdout)
	}
	if got := m.IncKeys(); got != "a b c" {
		t.Errorf("calls %q", got)
	}
}

// Scenario 27: a home that cannot be written.
func TestDisk_ReadOnlyHome(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.OnDisk("2m")
	m.OK("execute", "--code", "return 1")
	if out, err := exec.Command("mount", "-o", "remount,ro", filepath.Dir(m.Home)).CombinedOutput(); err != nil {
		skiptest.Missing(t, fmt.Sprintf("cannot remount: %v %s", err, out))
	}
	pmltest.Wants(t, m.Exit(1, "execute", "--code", "return 1").Stderr, "error: ", "read-only file system", "--home", "nothing was changed")
	pmltest.Wants(t, m.OK("workflows", "ls").Stdout, "complete")
	m.OK("approvals", "ls")
	m.Env = append(m.Env, "PML_HOME="+m.Home+"/none")
	pmltest.Wants(t, m.Exit(1, "execute", "--code", "return 1").Stderr, "read-only file system", "--home")
	m.OK("version")
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
		{"Truncated", func(t *testing.T, db string) { pmltest.Truncate(t, db, 20_000) }, "cut off"},
		{"Stump", func(t *testing.T, db string) { pmltest.Truncate(t, db, 10) }, "damaged"},
		{"Emptied", func(t *testing.T, db string) { pmltest.Truncate(t, db, 0) }, "damaged"},
		{"Overwritten", func(t *testing.T, db string) { pmltest.Overwrite(t, db, bytes.Repeat([]byte("x"), 65536)) }, "damaged"},
		{"Newer", pmltest.NewerFormat, "newer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := pmltest.BareMachine(t)
			m.OK("execute", "--code", "return 1")
			db := filepath.Join(m.Home, "pending.db")
			c.damage(t, db)
			before := pmltest.ReadBytes(t, db)
			for _, args := range [][]string{{"execute", "--code", "return 1"}, {"workflows", "ls"}, {"approvals", "ls"}, {"continue", "@latest"}} {
				o := m.Exit(1, args...)
				pmltest.Wants(t, o.Stderr, "error: ", c.text, "pending.db", "next: pml")
				if f := m.Exit(1, append(args, "--json")...).Fault(); f.Code != core.CodeStoreFailed && f.Code != core.CodeStoreNewer {
					t.Errorf("%v: code %s", args, f.Code)
				}
			}
			pmltest.Wants(t, m.Exit(1, "doctor").Stdout, "fail", c.text)
			if !bytes.Equal(before, pmltest.ReadBytes(t, db)) {
				t.Error("the file was changed")
			}
			// Moved away, as the message says, pml starts anew.
			if err := os.Rename(db, db+".bad"); err != nil {
				t.Fatal(err)
			}
			m.OK("execute", "--code", "return 1")
		})
	}
}
