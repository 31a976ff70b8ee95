package bolt_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// handles counts the open descriptors of this process that lead to a file.
func handles(t *testing.T, path string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.TrimSuffix(to, " (deleted)") == path {
			n++
		}
	}
	return n
}

// TestKeep_SeesOthers: a file that is kept open is never believed when another
// store has committed, or when the file is another one.
func TestKeep_SeesOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pending.db")
	a, b := open(t, dir, wall{}), open(t, dir, wall{})
	run := newRun("r")
	if err := a.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 40; seq += 2 {
		for i, s := range []*bolt.Store{a, b} {
			if err := s.Commit(t.Context(), store.Step{Run: run, Records: []core.Record{newRecord(seq + int64(i))}}); err != nil {
				t.Fatalf("record %d: %v", seq+int64(i), err)
			}
		}
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for seq := int64(41); seq <= 42; seq++ {
		if err := a.Commit(t.Context(), store.Step{Run: run, Records: []core.Record{newRecord(seq)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+".restored", backup, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".restored", path); err != nil {
		t.Fatal(err)
	}
	records, err := a.Journal(t.Context(), run.ID, 0)
	if err != nil || len(records) != 40 {
		t.Errorf("a file that was put in place is not seen: %d records, %v", len(records), err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Journal(t.Context(), run.ID, 0); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("a file that was cut off: %v", err)
	}
}

// TestKeep_NotForLong: an idle store holds no file, so that space that another
// process has freed is free; neither does a closed one.
func TestKeep_NotForLong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pending.db")
	s := open(t, dir, wall{})
	run := newRun("r")
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for handles(t, path) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the file stays open")
		}
	}
	if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := handles(t, path); n > 0 {
		t.Errorf("a closed store holds the file %d times", n)
	}
}
