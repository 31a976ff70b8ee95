package bolt_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// filled returns a folder whose store holds some runs.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	for range 40 {
		if _, _, err := createWaiting(s, false); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wantFailed checks that both kinds of operation fail with a code and that the
// message names the file and says what to do.
func wantFailed(t *testing.T, dir string, code core.Code, words ...string) {
	t.Helper()
	s := open(t, dir, wall{})
	_, rerr := s.Runs(t.Context(), store.RunFilter{})
	_, _, werr := createWaiting(s, false)
	for _, err := range []error{rerr, werr} {
		if core.CodeOf(err) != code {
			t.Fatalf("code %q, want %q: %v", core.CodeOf(err), code, err)
		}
		for _, w := range append(words, filepath.Join(dir, "pending.db")) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in: %s", w, err)
			}
		}
	}
}

func TestDamage_Truncated(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(int64) int64{
		"Empty":        func(int64) int64 { return 0 },
		"InFirstPage":  func(int64) int64 { return 100 },
		"OnePage":      func(int64) int64 { return 4096 },
		"TwoPages":     func(int64) int64 { return 8192 },
		"Half":         func(n int64) int64 { return n / 2 },
		"HalfUneven":   func(n int64) int64 { return n/2 + 17 },
		"AlmostNoneOf": func(int64) int64 { return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t)
			path := filepath.Join(dir, "pending.db")
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, keep(info.Size())); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wantFailed(t, dir, core.CodeStoreFailed, "damaged", "move it away")
			after, err := os.ReadFile(path)
			if err != nil || string(before) != string(after) {
				t.Errorf("the damaged file was changed: %v", err)
			}
			// What the message advises helps.
			if err := os.Rename(path, path+".broken"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := createWaiting(open(t, dir, wall{}), false); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDamage_Overwritten puts other bytes over pages in turn: whatever
// bbolt makes of it, the process lives and every operation ends.
func TestDamage_Overwritten(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "opens a file with each of its pages damaged")
	dir := filled(t)
	good, err := os.ReadFile(filepath.Join(dir, "pending.db"))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	failures := 0
	const pages = 60 // of those in the file, which takes long enough
	for at := 2 * page; at+page <= len(good); at += max(1, len(good)/page/pages) * page {
		for _, fill := range []byte{0, 0x5a, 0xff} {
			bad := append([]byte{}, good...)
			for i := range page {
				bad[at+i] = fill
			}
			to := t.TempDir()
			if err := os.WriteFile(filepath.Join(to, "pending.db"), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, to, wall{})
			_, rerr := s.Runs(t.Context(), store.RunFilter{})
			_, aerr := s.Approvals(t.Context(), store.ApprovalFilter{})
			_, _, werr := createWaiting(s, false)
			for _, err := range []error{rerr, aerr, werr} {
				if err == nil {
					continue
				}
				failures++
				if core.CodeOf(err) != core.CodeStoreFailed && core.CodeOf(err) != core.CodeNotFound {
					t.Errorf("page %d of %#x: code %s: %v", at/page, fill, core.CodeOf(err), err)
				}
			}
		}
	}
	if failures == 0 {
		t.Error("no damage was noticed at all")
	}
}

func TestDamage_NotADatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pending.db"), []byte(strings.Repeat("not a database\n", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, dir, core.CodeStoreFailed, "not a pml database")
}

func TestFormat_Newer(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	db, err := bbolt.Open(filepath.Join(dir, "pending.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("version"), binary.BigEndian.AppendUint64(nil, 99))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, dir, core.CodeStoreNewer, "newer pml")
}

// TestFormat_V1 reads a file that the first version wrote.
func TestFormat_V1(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pending.db"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, wall{})
	const id = "11111111-0000-4000-8000-000000000001"
	run, err := s.Run(t.Context(), id)
	if err != nil || run.Intent != "format one" || string(run.Result) != `{"a": 1}` || run.State != core.RunComplete {
		t.Errorf("%+v, %v", run, err)
	}
	records, err := s.Journal(t.Context(), id, 0)
	if err != nil || len(records) != 2 || string(records[1].Args) != `{"path": "<a>"}` {
		t.Errorf("%+v, %v", records, err)
	}
	p, err := s.Program(t.Context(), id)
	if err != nil || p.Source != "return 1" {
		t.Errorf("%+v, %v", p, err)
	}
	as, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: id})
	if err != nil || len(as) != 1 || as[0].DecidedBy == nil || as[0].DecidedBy.Who != "ann" {
		t.Errorf("%+v, %v", as, err)
	}
	events, err := s.Events(t.Context(), store.EventFilter{RunID: id})
	if err != nil || len(events) != 2 {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestFormat_WriteV1 writes testdata/v1.db; it is kept to show what is in it
// and runs only when PML_WRITE_V1 is set.
func TestFormat_WriteV1(t *testing.T) {
	if os.Getenv("PML_WRITE_V1") == "" {
		t.Skip("writes testdata; set PML_WRITE_V1=1")
	}
	dir := t.TempDir()
	s := open(t, dir, wall{})
	run := newRun("r")
	run.ID, run.Intent, run.IdempotencyKey = "11111111-0000-4000-8000-000000000001", "format one", "k"
	a := newApproval(run.ID)
	rec := newRecord(2)
	rec.Args = json.RawMessage(`{"path": "<a>"}`)
	steps := []store.Step{{Run: run, Create: true, Open: []core.Approval{a}, Records: []core.Record{newRecord(1)},
		Program: &core.Program{Kind: core.KindCode, Version: 1, Source: "return 1"},
		Events:  []core.Event{{Type: core.EventWorkflowStart, At: run.CreatedAt}}}}
	run.State, run.Result = core.RunComplete, json.RawMessage(`{"a": 1}`)
	steps = append(steps, store.Step{Run: run, Records: []core.Record{rec}})
	for i, step := range steps {
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			d := core.Decision{ApprovalID: a.ID, Approved: true, By: core.Actor{Who: "ann"}, At: time.Now()}
			if _, err := s.Decide(t.Context(), d, store.Renewal{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "pending.db"))
	if err == nil {
		err = errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile("testdata/v1.db", raw, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFiles_Modes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "deep", "home")
	s := open(t, dir, wall{})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open must touch nothing: %v", err)
	}
	if _, _, err := createWaiting(s, true); err != nil {
		t.Fatal(err)
	}
	r, err := s.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFiles_NotWritable(t *testing.T) {
	t.Parallel()
	// A file where the folder should be works for every user, root included.
	file := filepath.Join(t.TempDir(), "home")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, file, core.CodeStoreFailed, "cannot lock")
	if os.Geteuid() == 0 {
		return // root may write everywhere
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	wantFailed(t, dir, core.CodeStoreFailed, "make the folder writable")
}

func TestLock_Busy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	patient, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, PID: 4711, Process: "pml stdio", LockTimeout: hung})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = createWaiting(patient, false) // leaves 4711 in the lock file
	if err := errors.Join(err, patient.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, PID: 4712, Process: "pml stdio", LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	holder := flock.New(filepath.Join(dir, "pending.db.lock"))
	if err := holder.Lock(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Runs(t.Context(), store.RunFilter{})
	if core.CodeOf(err) != core.CodeStoreBusy || !strings.Contains(err.Error(), "process 4711 (pml stdio)") {
		t.Errorf("busy: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = s.Runs(ctx, store.RunFilter{}); core.CodeOf(err) != core.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	// The late waiter gives the lock back at once, so that both go on.
	for _, st := range []*bolt.Store{s, open(t, dir, wall{})} {
		runs, err := st.Runs(t.Context(), store.RunFilter{})
		// On a busy machine 50 ms can be too short for what nobody hinders.
		for tries := 0; st == s && core.CodeOf(err) == core.CodeStoreBusy && tries < 1000; tries++ {
			runs, err = st.Runs(t.Context(), store.RunFilter{})
		}
		if err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestLock_Own: a commit of this process that takes longer than anybody waits for the lock
// is waited for: nobody else has it, and the store is not busy.
func TestLock_Own(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, Process: "pml stdio"})
		if err != nil {
			t.Fatal(err)
		}
		run, _, err := createWaiting(s, false)
		if err != nil {
			t.Fatal(err)
		}
		held, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
		s.HoldCommit(held, release)
		run.State = core.RunRunning
		go func() { done <- s.Commit(t.Context(), store.Step{Run: run}) }()
		<-held
		go func() {
			_, err := s.Runs(t.Context(), store.RunFilter{})
			done <- err
		}()
		time.Sleep(time.Minute) // of this test's own clock
		close(release)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestBlobs_Removed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	run, _, err := createWaiting(s, true)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "blobs", "left-behind")
	recent := filepath.Join(dir, "blobs", "just-begun")
	for _, d := range []string{old, recent} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hours := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, hours, hours); err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		es, err := os.ReadDir(filepath.Join(dir, "blobs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			out = append(out, e.Name())
		}
		return out
	}
	if got := names(); len(got) != 3 {
		t.Fatalf("blobs: %v", got)
	}
	run.State = core.RunComplete
	if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"just-begun"}, names()); diff != "" {
		t.Error(diff)
	}
}

func TestBlobs_Damaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, wall{})
	run, _, err := createWaiting(s, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "blobs", string(run.ID), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Journal(t.Context(), run.ID, 0); core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("changed: %v", err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Journal(t.Context(), run.ID, 0); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("missing: %v", err)
	}
}

// TestCompact fills the file beyond the limit, removes most of it and expects
// it to shrink with nothing lost.
func TestCompact(t *testing.T) {
	skiptest.Short(t, "writes 80 MB")
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "Shared" {
				skiptest.Long(t, "writes 80 MB once more")
			}
			testCompact(t, open)
		})
	}
}

func testCompact(t *testing.T, open func(testing.TB, string, core.Clock) *bolt.Store) {
	dir := t.TempDir()
	s := open(t, dir, wall{})
	filler := strings.Repeat("x", 500<<10)
	var runs []core.Run
	for i := range 170 {
		run := newRun("r")
		if i > 0 {
			run.State = core.RunComplete
		}
		if err := s.Commit(t.Context(), store.Step{Run: run, Create: true,
			Program: &core.Program{Kind: core.KindCode, Version: 1, Source: filler}, Records: []core.Record{newRecord(1)}}); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	path := filepath.Join(dir, "pending.db")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(dir, "server.db")
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []core.ID
	for _, r := range runs[1:] {
		ids = append(ids, r.ID)
	}
	if err := s.Remove(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if _, _, err := createWaiting(s, false); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if before.Size() < 64<<20 || after.Size() > 8<<20 {
		t.Errorf("from %d to %d MB", before.Size()>>20, after.Size()>>20)
	}
	p, err := s.Program(t.Context(), runs[0].ID)
	if err != nil || len(p.Source) != len(filler) {
		t.Errorf("program of %d bytes, %v", len(p.Source), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if records, err := open(t, dir, wall{}).Journal(t.Context(), runs[0].ID, 0); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}
