package bolt

import (
	"context"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// runnerSet are the runners of a store that one process has for itself: whoever
// is not among them is dead, for the store was opened after it.
type runnerSet struct {
	newID func() core.ID

	mu   sync.Mutex
	live map[string]bool
}

func (s *runnerSet) place() string { return "of this process" }

func (s *runnerSet) register() (store.Runner, error) {
	r := &member{set: s, id: string(s.newID())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]bool{}
	}
	s.live[r.id] = true
	return r, nil
}

func (s *runnerSet) alive(id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id], nil
}

// member is a runner of a runnerSet.
type member struct {
	set *runnerSet
	id  string
}

// ID implements store.Runner.
func (m *member) ID() string { return m.id }

// Lost implements store.Runner: nobody else can have the store meanwhile.
func (m *member) Lost() <-chan struct{} { return nil }

// Gone implements store.Runner: the others live and die with this process.
func (m *member) Gone() <-chan struct{} { return nil }

// Holds implements store.Runner: a process that is stopped keeps its lock.
func (m *member) Holds(context.Context) error { return nil }

// Close implements store.Runner: from then on the runner is dead.
func (m *member) Close() error {
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	delete(m.set.live, m.id)
	return nil
}
