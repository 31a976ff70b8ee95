package bolt_test

import (
	"errors"
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

// TestFiles_ReadOnly: what lies on a read-only file system can be listed and not
// changed; once it can be written, the same store goes on.
func TestFiles_ReadOnly(t *testing.T) {
	dir := mount(t, 0, "size=512k")
	s := open(t, dir, wall{})
	run, _, err := createWaiting(s, false)
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
	s = open(t, dir, wall{})
	for range 2 {
		runs, err := s.Runs(t.Context(), store.RunFilter{})
		if err != nil || len(runs) != 1 || runs[0].ID != run.ID {
			t.Errorf("listed: %v %+v", err, runs)
		}
		_, _, err = createWaiting(s, false)
		if core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), "read-only") || !strings.Contains(err.Error(), "make the folder writable") {
			t.Errorf("written: %v", err)
		}
	}
	after, err := os.ReadFile(filepath.Join(dir, "pending.db"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the file was changed: %v", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=512k"); err != nil {
		skip(t, "cannot remount", err)
	}
	if _, _, err := createWaiting(s, false); err != nil {
		t.Errorf("writable again: %v", err)
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
