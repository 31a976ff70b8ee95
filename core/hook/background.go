package hook

import (
	"context"
	"sync"
	"time"
)

const (
	// maxBeside is how many nodes that nobody waits for run at a time.
	maxBeside = 4
	// maxQueued is how many wait for that; more are dropped.
	maxQueued = 256
	// closeGrace is what those that are left are given at the end.
	closeGrace = 2 * time.Second
)

// background runs the nodes that nobody waits for. Each has the deadline of its node, and
// none outlives the Runner.
type background struct {
	life  context.Context
	end   context.CancelFunc
	grace time.Duration

	mu      sync.Mutex
	queue   []func(context.Context)
	running int
	closed  bool
	group   sync.WaitGroup
}

func newBackground() *background {
	b := &background{grace: closeGrace}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// start queues a job; false: there is no room.
func (b *background) start(job func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false
	case b.running < maxBeside:
		b.running++
		b.group.Go(func() { b.work(job) })
	case len(b.queue) < maxQueued:
		b.queue = append(b.queue, job)
	default:
		return false
	}
	return true
}

// work runs jobs until there is none.
func (b *background) work(job func(context.Context)) {
	for job != nil {
		job(b.life)
		b.mu.Lock()
		if job = nil; len(b.queue) > 0 && b.life.Err() == nil {
			job, b.queue = b.queue[0], b.queue[1:]
		} else {
			b.running--
		}
		b.mu.Unlock()
	}
}

func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	timer := time.AfterFunc(b.grace, b.end)
	b.group.Wait()
	timer.Stop()
	b.end()
}
