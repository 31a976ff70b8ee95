package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// mount puts a small file system of its own on a folder, which takes root. The
// tests that need it are skipped elsewhere, or fail where nothing may be.
func mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		skip(t, "needs the right to mount", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes what is left of the disk that a folder is on.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFiles_DiskFull fills the disk with commits, then by others: each refused
// operation is one clear error, and nothing that was committed is lost.
func TestFiles_DiskFull(t *testing.T) {
	dir := mount(t, 0, "size=2m")
	s := open(t, dir, wall{})
	committed := 0
	var err error
	for range 1000 {
		if _, _, err = createWaiting(s, committed%2 == 1); err != nil {
			break
		}
		committed++
	}
	if core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), "the disk is full") || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("after %d runs: %v", committed, err)
	}
	runs, err := s.Runs(t.Context(), store.RunFilter{})
	if err != nil || len(runs) != committed {
		t.Fatalf("%d of %d runs are left: %v", len(runs), committed, err)
	}
	// Space comes back and so does the store.
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := createWaiting(s, true); err != nil {
		t.Error(err)
	}
	checkIntegrity(t, s, dir)
}

func TestFiles_ReadOnly(t *testing.T) {
	dir := mount(t, 0, "size=512k")
	s := open(t, dir, wall{})
	_, _, err := createWaiting(s, false)
	if err := errors.Join(err, s.Close()); err != nil { // an open file would keep the disk writable
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "pending.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		skip(t, "cannot remount", err)
	}
	wantFailed(t, dir, core.CodeStoreFailed, "read-only", "make the folder writable")
	after, err := os.ReadFile(filepath.Join(dir, "pending.db"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestExclusive_DiskFull: the file that is kept open survives a full disk too.
func TestExclusive_DiskFull(t *testing.T) {
	dir := mount(t, 0, "size=12m")
	s := openExclusive(t, dir, wall{})
	committed := 0
	var err error
	for range 2000 {
		if _, _, err = createWaiting(s, committed%2 == 1); err != nil {
			break
		}
		committed++
	}
	if core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), "the disk is full") || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("after %d runs: %v", committed, err)
	}
	runs, err := s.Runs(t.Context(), store.RunFilter{})
	if err != nil || len(runs) != committed {
		t.Fatalf("%d of %d runs are left: %v", len(runs), committed, err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=24m"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := createWaiting(s, true); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkPages(t, filepath.Join(dir, "server.db"))
}

func TestExclusive_ReadOnly(t *testing.T) {
	dir := mount(t, 0, "size=1m")
	s := openExclusive(t, dir, wall{})
	_, _, err := createWaiting(s, false)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		skip(t, "cannot remount", err)
	}
	wantNotOpened(t, dir, core.CodeStoreFailed, "read-only", "make the folder writable")
}

// TestFiles_DiskFullLog: with no room for the redo log, what the file itself has
// room for is committed all the same, so that runs can be removed.
func TestFiles_DiskFullLog(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, 0, "size=2m")
			var run core.Run
			for range 2 { // by then both heads of the log have been written
				s := open(t, dir, wall{})
				for range 30 { // what is removed leaves free pages
					var err error
					if run, _, err = createWaiting(s, false); err != nil {
						t.Fatal(err)
					}
					run.State = core.RunComplete
					if err := errors.Join(s.Commit(t.Context(), store.Step{Run: run}), s.Remove(t.Context(), run.ID)); err != nil {
						t.Fatal(err)
					}
				}
				run, _, _ = createWaiting(s, false)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := open(t, dir, wall{})
			if err := os.Truncate(s.Path()+".redo", 8<<10); err != nil { // a log that has not grown yet
				t.Fatal(err)
			}
			fill(t, dir)
			for i := range 20 {
				if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
					t.Fatalf("commit %d: %v", i, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			checkPages(t, s.Path())
		})
	}
}

// TestFiles_DiskFullUnfinished: a commit that counts gets into the file on a full disk,
// too, when its process was killed.
func TestFiles_DiskFullUnfinished(t *testing.T) {
	for name, open := range openers {
		for _, before := range []int{0, 20, 60} {
			t.Run(fmt.Sprint(name, before), func(t *testing.T) {
				dir := mount(t, 0, "size=32m")
				s := open(t, dir, wall{})
				for range before {
					if _, _, err := createWaiting(s, false); err != nil {
						t.Fatal(err)
					}
				}
				s.Written()
				s.DieInWrite()
				run, _, err := createWaiting(s, false)
				if err != nil {
					t.Fatal(err)
				}
				s.Written()
				fill(t, dir)
				if _, err := s.Run(t.Context(), run.ID); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				checkPages(t, s.Path())
			})
		}
	}
}
