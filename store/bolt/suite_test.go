package bolt_test

import (
	"os"
	"testing"

	"github.com/google/uuid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/storetest"
)

func newID() core.ID { return core.ID(uuid.NewString()) }

// open opens a store on a folder and closes it after the test.
func open(t testing.TB, dir string, clock core.Clock) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: clock, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openExclusive opens an exclusive store and closes it after the test.
func openExclusive(t testing.TB, dir string, clock core.Clock) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: clock, NewID: newID, PID: os.Getpid(), Process: "test", Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openers are the two ways to open a store.
var openers = map[string]func(testing.TB, string, core.Clock) *bolt.Store{"Shared": open, "Exclusive": openExclusive}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				dir, clock := t.TempDir(), storetest.NewClock()
				s := open(t, dir, clock)
				return storetest.Harness{
					Store:      s,
					Clock:      clock,
					Reopen:     func(t *testing.T) store.Store { return open(t, dir, clock) },
					Single:     name == "Exclusive",
					FailCommit: func(at storetest.FailPoint) { s.FailCommit(at == storetest.AfterCommit) },
				}
			})
		})
	}
}

// skip skips a test for a reason, or fails it under PML_TEST_REQUIRE=all.
func skip(t *testing.T, reason string, err error) {
	t.Helper()
	skiptest.Missing(t, reason+": "+err.Error())
}
