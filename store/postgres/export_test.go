package postgres

import (
	"context"
	"strconv"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// FormatVersion is the format that this package writes.
const FormatVersion = formatVersion

// FailCommit lets the next commit fail before or after it.
func (s *Store) FailCommit(after bool) {
	err := core.Errorf(core.CodeStoreFailed, "injected")
	if after {
		s.fault.afterNext.Store(err)
	} else {
		s.fault.beforeNext.Store(err)
	}
}

// LockOf is the key of a runner's advisory lock.
var LockOf = lockOf

// Machine names the machine of this process, as rows of runners do.
var Machine = machine

// Setting is what a setting of the database is for the store's connections.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// Packet is what a commit of a step would send now. It can be sent later, and
// more than once; it reports whether the step was kept.
func (s *Store) Packet(step store.Step) (func(context.Context) (bool, error), error) {
	p, err := prepare(step, string(s.opts.NewID()))
	if err != nil {
		return nil, err
	}
	if !p.short {
		return nil, core.Errorf(core.CodeInternal, "it goes the long way")
	}
	p.before = s.queue.last[step.Run.ID]
	return func(ctx context.Context) (bool, error) {
		kept, _, err := s.send(ctx, []*op{{prepared: p}})
		return kept[string(step.Run.ID)], err
	}, nil
}

// StepBeside commits a step the long way, and does something beside when the step has read
// what it goes by and its first try is about to be written.
func (s *Store) StepBeside(ctx context.Context, step store.Step, beside func()) error {
	p, err := prepare(step, string(s.opts.NewID()))
	if err != nil {
		return err
	}
	once := sync.OnceFunc(beside)
	return s.update(ctx, func(t *txn) error {
		err := t.step(p)
		if err == nil {
			once()
		}
		return err
	})
}

// Take is what would be begun at once of steps of so many bytes: those that go in
// one statement, and those that go beside it.
func Take(sizes ...int) (together, beside []int) {
	q := newStepQueue()
	for i, n := range sizes {
		id := core.ID(strconv.Itoa(i))
		q.last[id] = "before"
		q.waiting = append(q.waiting, &op{prepared: &prepared{Step: store.Step{Run: core.Run{ID: id}}, short: true, size: n}})
	}
	short, long := q.take()
	for _, o := range short {
		together = append(together, o.size)
	}
	for _, o := range long {
		beside = append(beside, o.size)
	}
	return together, beside
}
