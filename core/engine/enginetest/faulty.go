package enginetest

import (
	"context"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Faulty are surroundings whose n-th commit fails, for tests that then go on with
// what is stored, as after a crash.
type Faulty struct {
	Surroundings

	mu            sync.Mutex
	commits       int
	before, after int
	tripped       chan struct{}
}

// NewFaulty wraps surroundings. Nothing fails until FailBefore or FailAfter.
func NewFaulty(s Surroundings) *Faulty {
	return &Faulty{Surroundings: s, tripped: make(chan struct{})}
}

// FailBefore makes the n-th commit from now on, and all after it, fail
// without writing anything.
func (f *Faulty) FailBefore(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = f.commits + n
}

// FailAfter makes the n-th commit from now on be written and yet fail, as if
// the process had died before it learned of it; all after it fail unwritten.
func (f *Faulty) FailAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = f.commits + n
}

// Tripped is closed by the first failure.
func (f *Faulty) Tripped() <-chan struct{} { return f.tripped }

// Commits returns how many commits were tried.
func (f *Faulty) Commits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// Commit implements store.Writer.
func (f *Faulty) Commit(ctx context.Context, step store.Step) error {
	f.mu.Lock()
	f.commits++
	n := f.commits
	write := (f.before == 0 || n < f.before) && (f.after == 0 || n <= f.after)
	fail := !write || f.after != 0 && n == f.after
	f.mu.Unlock()
	if write {
		if err := f.Surroundings.Commit(ctx, step); err != nil || !fail {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.tripped:
	default:
		close(f.tripped)
	}
	return core.Errorf(core.CodeStoreFailed, "the test lets commit %d fail", n)
}
