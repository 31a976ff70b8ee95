package postgres

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The channels of NOTIFY: commits, with the store that committed as payload,
// and changes of the set of runners.
const (
	commitChannel = "pml"
	runnerChannel = "pml_runners"
)

// idleCheck is after how long without a notification the database is asked:
// the connection may be dead, or carry no notifications.
const idleCheck = 2 * time.Second

// watchers wakes the channels of Watch: at once after a commit of this store,
// and by notification after one of another.
type watchers struct {
	store *Store

	mu      sync.Mutex
	subs    map[chan struct{}]bool // whether steps of this store wake it too
	closed  bool
	ready   chan struct{} // closed when the first LISTEN is in place
	done    chan struct{}
	runners chan struct{} // signalled when the set of runners has changed
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) { return s.watchFor(ctx, true) }

// WatchOthers implements store.Store. The death of another runner wakes it too.
func (s *Store) WatchOthers(ctx context.Context) (<-chan struct{}, error) {
	return s.watchFor(ctx, false)
}

func (s *Store) watchFor(ctx context.Context, own bool) (<-chan struct{}, error) {
	if err := s.watch.listening(ctx); err != nil {
		return nil, err
	}
	ch := make(chan struct{}, 1)
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, closed()
	}
	if w.subs == nil {
		w.subs = map[chan struct{}]bool{}
	}
	w.subs[ch] = own
	context.AfterFunc(ctx, func() { w.drop(ch) })
	return ch, nil
}

// listening returns when notifications come in.
func (w *watchers) listening(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return closed()
	}
	if w.ready == nil {
		w.ready, w.done, w.runners = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
		go w.listen(w.store.background)
	}
	ready := w.ready
	w.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-limit.Done():
		if ctx.Err() != nil {
			return cancelled(ctx)
		}
		return failure(limit.Err())
	}
}

func (w *watchers) drop(ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.subs[ch]; ok {
		delete(w.subs, ch)
		close(ch)
	}
}

func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	for ch := range w.subs {
		delete(w.subs, ch)
		close(ch)
	}
	done := w.done
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}

// committed wakes whoever watches, after a commit that may be about any run; own says
// that it was a step or a claim of a runner of this store.
func (w *watchers) committed(own bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch, all := range w.subs {
		if own && !all {
			continue
		}
		select {
		case ch <- struct{}{}:
		default: // it has not looked since the last time: once is enough
		}
	}
}

// listen follows the notifications until the store closes. After a lost
// connection everybody is woken, because the database does not repeat notifications.
func (w *watchers) listen(ctx context.Context) {
	defer close(w.done)
	first := true
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, longestWait) {
		conn, err := w.connect(ctx)
		if err == nil {
			if first {
				close(w.ready)
			} else {
				w.committed(false)
				signal(w.runners)
			}
			first, wait = false, firstWait
			err = w.follow(ctx, conn)
			shut(conn)
		}
		if ctx.Err() != nil {
			return
		}
		w.store.opts.Logger.Warn("the connection for notifications was lost; connecting again", "error", err)
		pause(ctx, wait)
	}
}

func (w *watchers) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, w.store.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	for _, channel := range []string{commitChannel, runnerChannel} {
		if err := brieflyExec(ctx, conn, "LISTEN "+channel); err != nil {
			shut(conn)
			return nil, err
		}
	}
	return conn, nil
}

// follow handles notifications until the connection fails.
func (w *watchers) follow(ctx context.Context, conn *pgx.Conn) error {
	known, err := newestEvent(ctx, conn)
	if err != nil {
		return err
	}
	heard := false
	for {
		limit, cancel := context.WithTimeout(ctx, idleCheck)
		n, err := conn.WaitForNotification(limit)
		idle := limit.Err() != nil
		cancel()
		switch {
		case err == nil && n.Channel == runnerChannel:
			signal(w.runners)
		case err == nil:
			heard = true
			if !strings.HasPrefix(n.Payload, w.store.origin) {
				w.committed(false)
			}
		case !idle || ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			was := known
			if known, err = newestEvent(ctx, conn); err != nil {
				return err
			}
			if known != was && !heard { // notifications do not come through
				w.committed(false)
			}
			heard = false
		}
	}
}

func newestEvent(ctx context.Context, conn *pgx.Conn) (seq int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT value FROM counters WHERE name = 'events'").Scan(&seq)
	return seq, err
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
