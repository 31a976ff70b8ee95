package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// TestSync_Fails lets each sync of the database file fail in turn, once or for a
// while. Whatever a caller is told afterwards, by this store or by another on the same
// files, has reached the disk: a commit that is acknowledged, and a run that is read.
func TestSync_Fails(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "fails each sync of a store in turn")
	for name, c := range map[string]struct{ exclusive, fresh bool }{"Shared": {}, "Exclusive": {exclusive: true}, "Fresh": {fresh: true}} {
		for _, times := range []int{1, 3} {
			for n := 1; n <= 10; n++ {
				t.Run(fmt.Sprintf("%s/%d from %d", name, times, n), func(t *testing.T) {
					t.Parallel()
					testSyncFails(t, c.exclusive, c.fresh, n, times)
				})
			}
		}
	}
}

func testSyncFails(t *testing.T, exclusive, fresh bool, n, times int) {
	dir := t.TempDir()
	opener, name := open, "pending.db"
	if exclusive {
		opener, name = openExclusive, "server.db"
	}
	d := &faultDisk{path: filepath.Join(dir, name), fail: func(i int) bool { return i >= n && i < n+times }}
	if !fresh {
		s := opener(t, dir, wall{})
		_, _, err := createWaiting(s, false)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		d.image = read(t, d.path)
	}
	failures := 0
	onFaultDisk(t, d, func() {
		var stores []*bolt.Store
		for range map[bool]int{true: 1, false: 2}[exclusive] {
			stores = append(stores, opener(t, dir, wall{}))
		}
		for i := range 8 {
			run := newRun("r")
			err := stores[i%len(stores)].Commit(t.Context(), store.Step{Run: run, Create: true})
			if err != nil {
				failures++
			}
			for _, s := range stores {
				wantOnDisk(t, d, s, name, run, err == nil)
			}
		}
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		s := opener(t, dir, wall{})
		wantOnDisk(t, d, s, name, core.Run{}, false)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if failures == 0 || failures > times {
		t.Errorf("%d commits failed of %d syncs", failures, times)
	}
	checkPages(t, d.path)
}

// wantOnDisk checks that a loss of power now would leave all runs that a store
// shows, among them the given one if it was acknowledged.
func wantOnDisk(t *testing.T, d *faultDisk, s *bolt.Store, name string, run core.Run, acknowledged bool) {
	seen, err := s.Runs(t.Context(), store.RunFilter{})
	if err != nil {
		if acknowledged {
			t.Errorf("after a commit that was acknowledged: %v", err)
		}
		return
	}
	dir, image := t.TempDir(), d.left()
	if len(seen) == 0 && len(image) == 0 && !acknowledged {
		return // there is no file yet
	}
	if err := os.WriteFile(filepath.Join(dir, name), image, 0o600); err != nil {
		t.Error(err)
		return
	}
	checkPages(t, filepath.Join(dir, name))
	left, err := bolt.Open(bolt.Options{Dir: dir, Clock: wall{}, NewID: newID, Name: name[:len(name)-len(".db")]})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = left.Close() }()
	has := map[core.ID]bool{}
	runs, err := left.Runs(t.Context(), store.RunFilter{})
	if err != nil {
		t.Errorf("after a loss of power: %v", err)
	}
	for _, r := range runs {
		has[r.ID] = true
	}
	for _, r := range seen {
		if !has[r.ID] {
			t.Errorf("the run %s is read and would be lost with the power", r.ID.Short())
		}
		acknowledged = acknowledged && r.ID != run.ID
	}
	if acknowledged {
		t.Errorf("the run %s was acknowledged and cannot be read", run.ID.Short())
	}
}
