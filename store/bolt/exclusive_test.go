package bolt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// wantNotOpened checks that an exclusive store cannot be opened, for a reason
// that names the file.
func wantNotOpened(t *testing.T, dir string, code core.Code, words ...string) {
	t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, Exclusive: true, LockTimeout: time.Hour})
	if err == nil {
		t.Fatal("it was opened", s.Close())
	}
	if core.CodeOf(err) != code {
		t.Errorf("code %q, want %q: %v", core.CodeOf(err), code, err)
	}
	for _, w := range append(words, filepath.Join(dir, "server.db")) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %s", w, err)
		}
	}
}

// TestExclusive_Busy: who comes second is told at once who has the file.
func TestExclusive_Busy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openExclusive(t, dir, wall{})
	wantNotOpened(t, dir, core.CodeStoreBusy, fmt.Sprintf("process %d (test)", os.Getpid()))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, in, out := child(t, "exclusive hold", dir, "")
	line(t, out)
	wantNotOpened(t, dir, core.CodeStoreBusy, fmt.Sprintf("process %d (child)", cmd.Process.Pid))
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, _, err := createWaiting(openExclusive(t, dir, wall{}), false); err != nil {
		t.Error(err)
	}
}

// TestExclusive_Kill: what a killed process leaves behind is whole and free.
func TestExclusive_Kill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kills := skiptest.Brief(6, 25)
	for range kills {
		cmd, _, out := child(t, "exclusive rounds", dir, "-1")
		line(t, out)
		killSoon(cmd)
	}
	s := openExclusive(t, dir, wall{})
	if _, _, err := createWaiting(s, true); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkPages(t, filepath.Join(dir, "server.db"))
}

// TestExclusive_Damaged: a damaged file, or one of a newer pml, is refused and
// left as it is.
func TestExclusive_Damaged(t *testing.T) {
	t.Parallel()
	newer := func(path string) error {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("version"), binary.BigEndian.AppendUint64(nil, 99))
		})
	}
	for name, c := range map[string]struct {
		damage func(path string) error
		code   core.Code
		words  string
	}{
		"Empty":         {func(p string) error { return os.Truncate(p, 0) }, core.CodeStoreFailed, "move it away"},
		"CutOff":        {func(p string) error { return os.Truncate(p, 20_000) }, core.CodeStoreFailed, "move it away"},
		"NotADatabase":  {func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("no\n"), 9000), 0o600) }, core.CodeStoreFailed, "not a pml database"},
		"NewerThanThis": {newer, core.CodeStoreNewer, "newer pml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openExclusive(t, dir, wall{})
			if _, _, err := createWaiting(s, false); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "server.db")
			if err := c.damage(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			wantNotOpened(t, dir, c.code, c.words)
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed: %v", err)
			}
			if err := os.Rename(path, path+".broken"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := createWaiting(openExclusive(t, dir, wall{}), false); err != nil {
				t.Errorf("moved away: %v", err)
			}
		})
	}
}

// later is a wall clock that is some hours ahead.
type later struct{}

func (later) Now() time.Time { return time.Now().Add(3 * time.Hour) }

// TestExclusive_Apart: both stores of a home leave one another's files alone.
func TestExclusive_Apart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, client := openExclusive(t, dir, later{}), open(t, dir, later{})
	var runs []core.Run
	for _, s := range []*bolt.Store{server, client} {
		run, _, err := createWaiting(s, true)
		if err != nil {
			t.Fatal(err)
		}
		done := newRun("r")
		done.State = core.RunComplete
		if err := s.Commit(t.Context(), store.Step{Run: done, Create: true}); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), done.ID); err != nil { // sweeps what no run has
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for i, s := range []*bolt.Store{server, client} {
		if records, err := s.Journal(t.Context(), runs[i].ID, 0); err != nil || len(records) != 1 {
			t.Errorf("%d records, %v", len(records), err)
		}
		if all, err := s.Runs(t.Context(), store.RunFilter{}); err != nil || len(all) != 1 {
			t.Errorf("%d runs, %v", len(all), err)
		}
	}
	for path, want := range map[string]os.FileMode{"server.db": 0o600, "server.db.lock": 0o600, "server.blobs": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	runs[0].State = core.RunAborted
	if err := server.Commit(t.Context(), store.Step{Run: runs[0]}); err != nil {
		t.Fatal(err)
	}
	if err := server.Remove(t.Context(), runs[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "server.blobs", string(runs[0].ID))); !os.IsNotExist(err) {
		t.Errorf("the blobs of a removed run: %v", err)
	}
}

// TestExclusive_ReadsBeside: reads do not wait for a commit under way, and see
// the state before it; writers that come meanwhile share the next one.
func TestExclusive_ReadsBeside(t *testing.T) {
	t.Parallel()
	s := openExclusive(t, t.TempDir(), wall{})
	run, _, err := createWaiting(s, false)
	if err != nil {
		t.Fatal(err)
	}
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	s.HoldCommit(held, release)
	next := run
	next.State = core.RunRunning
	go func() { done <- s.Commit(t.Context(), store.Step{Run: next}) }()
	<-held
	if got, err := s.Run(t.Context(), run.ID); err != nil || got.State != core.RunWaiting {
		t.Errorf("%s, %v", got.State, err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := s.Run(t.Context(), run.ID); err != nil || got.State != core.RunRunning {
		t.Errorf("%s, %v", got.State, err)
	}
}

// TestExclusive_FreePages: whether the list of free pages is short and kept or
// long and left out, what a crash leaves behind is whole and goes on.
func TestExclusive_FreePages(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "writes and removes many runs")
	dir := t.TempDir()
	s := openExclusive(t, dir, wall{})
	filler := &core.Program{Kind: core.KindCode, Version: 1, Source: strings.Repeat("x", 12<<10)}
	var ids []core.ID
	fill := func() {
		t.Helper()
		for range 450 {
			run := newRun("r")
			run.State = core.RunComplete
			if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Program: filler}); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
		}
	}
	crashed := func(when string) {
		t.Helper()
		if _, _, err := createWaiting(s, false); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(filepath.Join(dir, "server.db"))
		if err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if err := os.WriteFile(filepath.Join(to, "server.db"), now, 0o600); err != nil {
			t.Fatal(err)
		}
		checkPages(t, filepath.Join(to, "server.db"))
		again := openExclusive(t, to, wall{})
		for range 20 {
			if _, _, err := createWaiting(again, false); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		checkPages(t, filepath.Join(to, "server.db"))
	}
	fill()
	crashed("a short list")
	if err := s.Remove(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	ids = nil
	crashed("a long list")
	fill()
	crashed("a short list again")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkPages(t, filepath.Join(dir, "server.db"))
}

// raw changes a store's file as a pml would that knows no indexes of runs.
func raw(t *testing.T, path string, f func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: hung})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(f); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantRuns(t *testing.T, s *bolt.Store, when string, f store.RunFilter, want ...core.ID) {
	t.Helper()
	runs, err := s.Runs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]core.ID, 0, len(runs))
	for _, r := range runs {
		got = append(got, r.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", when, got, want)
	}
}

// TestIndex_OlderWriter: an older pml that writes to the same file knows no
// indexes. Nothing is missed before the next commit, and after it they are whole.
func TestIndex_OlderWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	a, _, err := createWaiting(s, false)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := createWaiting(s, false)
	if err != nil {
		t.Fatal(err)
	}
	waiting := store.RunFilter{States: []core.RunState{core.RunWaiting}}
	running := store.RunFilter{States: []core.RunState{core.RunRunning}}
	wantRuns(t, s, "at first", waiting, b.ID, a.ID)
	raw(t, filepath.Join(dir, "pending.db"), func(tx *bbolt.Tx) error {
		runs := tx.Bucket([]byte("runs"))
		row := bytes.Replace(runs.Get([]byte(a.ID)), []byte(`"state":"waiting"`), []byte(`"state":"running"`), 1)
		return runs.Put([]byte(a.ID), row)
	})
	check := func(when string) {
		t.Helper()
		wantRuns(t, s, when, waiting, b.ID)
		wantRuns(t, s, when, running, a.ID)
		orphans, err := s.Orphans(t.Context(), "", 0)
		if err != nil || len(orphans) != 1 || orphans[0] != a.ID {
			t.Errorf("%s: orphans %v, %v", when, orphans, err)
		}
	}
	check("before a commit")
	if err := s.Commit(t.Context(), store.Step{Run: b}); err != nil {
		t.Fatal(err)
	}
	check("after it")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, filepath.Join(dir, "pending.db"), func(tx *bbolt.Tx) error {
		for name, want := range map[string]int{"runs_by_state": 2, "runs_todo": 1} {
			if n := tx.Bucket([]byte(name)).Stats().KeyN; n != want {
				t.Errorf("%d entries in %s, want %d", n, name, want)
			}
		}
		return nil
	})
}

// TestIndex_V1: a file from before the indexes is listed at once, and gets them
// with the first commit.
func TestIndex_V1(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pending", "server"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name+".db"), old, 0o600); err != nil {
			t.Fatal(err)
		}
		openIt := open
		if name == "server" {
			openIt = openExclusive
		}
		s := openIt(t, dir, wall{})
		const id = "11111111-0000-4000-8000-000000000001"
		complete := store.RunFilter{States: []core.RunState{core.RunComplete}, Workspace: "/w", Limit: 3}
		wantRuns(t, s, name, complete, id)
		run, _, err := createWaiting(s, false)
		if err != nil {
			t.Fatal(err)
		}
		wantRuns(t, s, name+" after a commit", complete, id)
		wantRuns(t, s, name+" after a commit", store.RunFilter{States: []core.RunState{core.RunWaiting}}, run.ID)
		wantRuns(t, s, name+" after a commit", store.RunFilter{}, run.ID, id)
	}
}
