package bolt_test

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// fixture unpacks what a pml with a redo log has left: behind.db lacks the last of
// the four commits of ahead.redo, whole.db has the one of whole.redo, settled.redo has
// none.
func fixture(t testing.TB, name, to string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/oldlog", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err == nil {
		err = os.WriteFile(to, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func logOptions(dir string, exclusive bool) bolt.Options {
	opts := bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung, Exclusive: exclusive}
	if exclusive {
		opts.Name = "server"
	}
	return opts
}

func wantNoLog(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path + ".redo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
}

// TestOldLog: a store whose log has commits that the file may lack is refused and left
// as it is, with the command that applies the log; that brings them in, whatever part
// of the file a loss of power has left.
func TestOldLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		db, log   string
		commits   int
		exclusive bool
		spoil     func(whole, behind []byte) []byte
	}{
		"KilledBeforeTheFile": {db: "behind.db", log: "ahead.redo", commits: 4},
		"Exclusive":           {db: "behind.db", log: "ahead.redo", commits: 4, exclusive: true},
		"NotSynced":           {db: "whole.db", log: "whole.redo", commits: 1},
		"MetasLost": {db: "behind.db", log: "ahead.redo", commits: 4, spoil: func(_, behind []byte) []byte {
			clear(behind[:2*4096])
			return behind
		}},
		"AnyPagesLost": {db: "behind.db", log: "whole.redo", commits: 1, spoil: func(whole, behind []byte) []byte {
			rng := rand.New(rand.NewPCG(1, 2))
			for at := 0; at < len(whole); at += 512 { // where they differ, no page of the base is
				if rng.IntN(2) == 0 {
					copy(behind[at:at+512], whole[at:])
				}
			}
			return behind
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := logOptions(t.TempDir(), c.exclusive)
			path, whole := filepath.Join(opts.Dir, "pending.db"), filepath.Join(t.TempDir(), "whole.db")
			if c.exclusive {
				path = filepath.Join(opts.Dir, "server.db")
			}
			fixture(t, c.db, path)
			fixture(t, c.log, path+".redo")
			fixture(t, "whole.db", whole)
			if c.spoil != nil {
				if err := os.WriteFile(path, c.spoil(read(t, whole), read(t, path)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wantRefused(t, opts, path)
			if n, err := bolt.ApplyLog(opts); n != c.commits || err != nil {
				t.Fatalf("%d commits, %v", n, err)
			}
			wantNoLog(t, path)
			if !slices.Equal(contents(t, path), contents(t, whole)) {
				t.Error("the file is not what was committed")
			}
			s, err := bolt.Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := createWaiting(s, false); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n, err := bolt.ApplyLog(opts); n != 0 || err != nil {
				t.Errorf("again: %d commits, %v", n, err)
			}
		})
	}
}

// wantRefused checks that a store can be neither read nor written, and is as it was.
func wantRefused(t *testing.T, opts bolt.Options, path string) {
	t.Helper()
	before, log := read(t, path), read(t, path+".redo")
	s, err := bolt.Open(opts)
	if err == nil {
		if _, _, err = createWaiting(s, false); err == nil {
			t.Error("the store can be written")
		}
		_, err = s.Runs(t.Context(), store.RunFilter{})
		if cerr := s.Close(); cerr != nil {
			t.Error(cerr)
		}
	}
	e := core.AsError(err)
	if e == nil || e.Code != core.CodeStoreFailed || !slices.Equal(e.Next, []string{"pml", "doctor", "--apply-log"}) {
		t.Errorf("%v, next: %v", err, e)
	}
	if !slices.Equal(before, read(t, path)) || !slices.Equal(log, read(t, path+".redo")) {
		t.Error("the refused store was changed")
	}
}

// TestOldLog_Obsolete: a log that says nothing about the file goes, and the file stays.
func TestOldLog_Obsolete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log   string
		other bool // the file is one that the log does not belong to
		later bool // something else has written the file since
	}{
		"Settled":   {log: "settled.redo"},
		"OtherFile": {log: "ahead.redo", other: true},
		"LaterFile": {log: "ahead.redo", later: true},
		"NoLog":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := logOptions(t.TempDir(), false)
			path := filepath.Join(opts.Dir, "pending.db")
			switch {
			case c.other:
				if err := os.WriteFile(path, read(t, "testdata/v1.db"), 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				fixture(t, "whole.db", path)
			}
			for i := 0; c.later && i < 6; i++ {
				raw(t, path, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("indexed"), []byte("?")) })
			}
			if c.log == "" {
				if err := os.WriteFile(path+".redo", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				fixture(t, c.log, path+".redo")
			}
			want := contents(t, path)
			s := open(t, opts.Dir, wall{})
			if _, err := s.Runs(t.Context(), store.RunFilter{}); err != nil {
				t.Fatal(err)
			}
			wantNoLog(t, path)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			// It is of the present format by now, whose new buckets are empty; everything
			// else is as it was.
			raw(t, path, func(tx *bbolt.Tx) error {
				for _, name := range []string{"flow_runs", "flow_variables"} {
					if n := tx.Bucket([]byte(name)).Stats().KeyN; n != 0 {
						t.Errorf("%s has %d rows", name, n)
					}
					if err := tx.DeleteBucket([]byte(name)); err != nil {
						return err
					}
				}
				return tx.Bucket([]byte("meta")).Put([]byte("version"), binary.BigEndian.AppendUint64(nil, 1))
			})
			if !slices.Equal(want, contents(t, path)) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestOldLog_Appears: a store that is in use does not go on past an older pml that
// works beside it and has died with a commit in its log.
func TestOldLog_Appears(t *testing.T) {
	t.Parallel()
	opts := logOptions(t.TempDir(), false)
	path := filepath.Join(opts.Dir, "pending.db")
	fixture(t, "behind.db", path)
	s := open(t, opts.Dir, wall{})
	if _, err := s.Runs(t.Context(), store.RunFilter{}); err != nil { // the file stays open for a moment
		t.Fatal(err)
	}
	fixture(t, "ahead.redo", path+".redo")
	if _, _, err := createWaiting(s, false); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("a commit past the log: %v", err)
	}
}

// TestOldLog_InUse: the log of a store that somebody uses is not applied.
func TestOldLog_InUse(t *testing.T) {
	t.Parallel()
	opts := logOptions(t.TempDir(), true)
	path := filepath.Join(opts.Dir, "server.db")
	s, err := bolt.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	fixture(t, "ahead.redo", path+".redo")
	if _, err := bolt.ApplyLog(opts); core.CodeOf(err) != core.CodeStoreBusy {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzOldLog: any bytes as a log are applied, refused or removed, never a panic, and
// leave a whole file.
func FuzzOldLog(f *testing.F) {
	dir := f.TempDir()
	for _, name := range []string{"ahead.redo", "settled.redo"} {
		fixture(f, name, filepath.Join(dir, name))
		seed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		opts := logOptions(t.TempDir(), false)
		path := filepath.Join(opts.Dir, "pending.db")
		fixture(t, "behind.db", path)
		if err := os.WriteFile(path+".redo", log, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.ApplyLog(opts); err == nil {
			checkPages(t, path)
		}
	})
}

// change encodes a change as a record of a log has it.
func change(kind byte, parts ...string) []byte {
	raw := []byte{kind}
	for i := range 5 {
		part := ""
		if i < len(parts) {
			part = parts[i]
		}
		raw = append(binary.AppendUvarint(raw, uint64(len(part))), part...)
	}
	return raw
}

// FuzzRemake: any bytes as a record are made or refused, never a panic; and what
// was made leaves a whole file.
func FuzzRemake(f *testing.F) {
	all := slices.Concat(
		change(3, "run", "id"), change(3, "run", "id", "journal"), change(1, "run", "id", "journal", "\x01", "record"),
		change(1, "runs", "", "", "id", strings.Repeat("x", 5000)), change(5, "events", "", "", "", "\x00\x00\x00\x00\x00\x00\x00\x07"),
		change(2, "runs", "", "", "id"), change(4, "run", "id"))
	f.Add(all)
	f.Add(all[:len(all)-1])
	f.Add([]byte{1, 4, 'r', 'u', 'n', 's', 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(change(4))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "x.db")
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(bolt.CreateBuckets); err != nil {
			t.Fatal(err)
		}
		refused := errors.New("refused")
		err = db.Update(func(tx *bbolt.Tx) error {
			if err := bolt.Remake(tx, raw); err != nil {
				return errors.Join(refused, err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, refused) {
			t.Errorf("what was made cannot be committed: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		checkPages(t, path)
	})
}
