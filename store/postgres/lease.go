package postgres

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
)

// leaseHolds is how long a runner trusts a lease of 10 s, from before it was asked
// for. Others take its runner for dead a second after the 10.
const leaseHolds = 9 * time.Second

// processStart is where the clock starts that elapsed falls back on.
var processStart = time.Now() //nolint:forbidigo // a start to count from; tests give Options.Elapsed

// renewedAt notes that the lease was renewed by a statement that was sent then.
func (r *runner) renewedAt(begun time.Duration) { r.setSure(begun + leaseHolds) }

// doubt notes that nothing is known of the lease until it is renewed.
func (r *runner) doubt() { r.setSure(0) }

func (r *runner) setSure(until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sure = until
	close(r.renewed)
	r.renewed = make(chan struct{})
}

// Holds implements store.Runner. A process that was stopped, and goes on, finds
// its lease run out and waits until the database has said whether it was taken
// for dead.
func (r *runner) Holds(ctx context.Context) error {
	for {
		r.mu.Lock()
		sure, renewed := r.sure, r.renewed
		r.mu.Unlock()
		select {
		case <-r.lost:
			return core.Errorf(core.CodeFenced, "another process has taken this one (runner %s) for dead", r.id)
		default:
		}
		if r.store.opts.Elapsed() < sure {
			return nil
		}
		select {
		case <-renewed:
		case <-r.lost:
		case <-ctx.Done():
			return cancelled(ctx)
		}
	}
}
