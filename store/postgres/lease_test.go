package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/postgres"
)

// TestRunner_Holds: a process that was stopped for longer than its lease does not
// go on as a runner before the database has said that it is one.
func TestRunner_Holds(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"Renewed": false, "TakenForDead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := database(t)
			var stood atomic.Int64
			begun := time.Now()
			s := open(t, address, wall{}, func(o *postgres.Options) {
				o.Elapsed = func() time.Duration { return time.Since(begun) + time.Duration(stood.Load()) }
			})
			r, err := s.Register(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			now, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Holds(now); err != nil {
				t.Fatal(err)
			}
			if taken {
				if _, err := connect(t, address).Exec(t.Context(), "DELETE FROM runners WHERE id = $1", r.ID()); err != nil {
					t.Fatal(err)
				}
			}
			stood.Store(int64(30 * time.Second))
			if err := r.Holds(now); core.CodeOf(err) != core.CodeCancelled && core.CodeOf(err) != core.CodeFenced {
				t.Errorf("in doubt: %v", err)
			}
			limit, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			want := core.Code("")
			if taken {
				want = core.CodeFenced
			}
			if err := r.Holds(limit); core.CodeOf(err) != want {
				t.Errorf("%v, want %q", err, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
