package temporal

import (
	"context"
	"sync"
)

// watchers are those in this process who want to hear of changes.
type watchers struct {
	mu     sync.Mutex
	all    map[chan struct{}]bool // whether it hears of this process's commits, too
	closed bool
}

// WatchOthers implements engine.Others: a runner is told by the workflows of its runs
// (runHolder.wake) and by the workflow of the halt.
func (s *Store) WatchOthers(ctx context.Context) (<-chan struct{}, error) {
	return s.watchers.add(ctx, false), nil
}

// Watch is WatchOthers that tells of the commits of this process, too, and within a second or two of what other
// processes commit to runs of their own.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	s.feed.start()
	return s.watchers.add(ctx, true), nil
}

func (w *watchers) add(ctx context.Context, own bool) <-chan struct{} {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		close(c)
		return c
	}
	if w.all == nil {
		w.all = map[chan struct{}]bool{}
	}
	w.all[c] = own
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, open := w.all[c]; open {
			delete(w.all, c)
			close(c)
		}
	})
	return c
}

// close closes all channels.
func (w *watchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for c := range w.all {
		close(c)
	}
	clear(w.all)
}

// tell wakes them; own is set after what this process has committed itself.
func (w *watchers) tell(own bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, hearsOwn := range w.all {
		if own && !hearsOwn {
			continue
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
