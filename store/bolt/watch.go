package bolt

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/casys-ai/pml/core"
)

// seqFile holds the number of the last commit in 8 bytes. It wakes other
// processes and is nothing but a hint: it is not synced.
type seqFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// open creates the file when it is missing.
func (q *seqFile) open() (*os.File, error) {
	if q.file != nil {
		return q.file, nil
	}
	f, err := os.OpenFile(q.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	q.file = f
	return f, nil
}

func (q *seqFile) write(n uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, err := q.open()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(be64(n), 0)
	return err
}

// read returns the number, 0 when there is none.
func (q *seqFile) read() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var b [8]byte
	f, err := q.open()
	if err != nil {
		return 0
	}
	if n, _ := f.ReadAt(b[:], 0); n != len(b) {
		return 0
	}
	return binary.BigEndian.Uint64(b[:])
}

// used reports whether anything was ever committed.
func (q *seqFile) used() bool {
	raw, err := os.ReadFile(q.path)
	return err == nil && len(raw) == 8 && binary.BigEndian.Uint64(raw) > 0
}

// renewed closes the file when its name leads to another one, or to none.
func (q *seqFile) renewed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.file == nil || sameFile(q.file, q.path) {
		return false
	}
	_ = q.file.Close()
	q.file = nil
	return true
}

func (q *seqFile) close() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.file != nil {
		_ = q.file.Close()
		q.file = nil
	}
}

// backstop is how often the file is read without a notification: those are best effort.
const backstop = 2 * time.Second

// watchers wakes the channels of Watch: at once after a commit of this
// process, and when another one has written the file.
type watchers struct {
	seq    *seqFile // nil when there are no other processes
	logger *slog.Logger

	mu     sync.Mutex
	subs   map[chan struct{}]bool // whether steps of this process wake it too
	seen   uint64                 // the last number that is known
	closed bool
	stop   chan struct{} // closed to end the watching goroutine
	done   chan struct{}
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) { return s.watchFor(ctx, true) }

// WatchOthers implements store.Store.
func (s *Store) WatchOthers(ctx context.Context) (<-chan struct{}, error) {
	return s.watchFor(ctx, false)
}

func (s *Store) watchFor(ctx context.Context, own bool) (<-chan struct{}, error) {
	if err := makeDir(s.opts.Dir); err != nil {
		return nil, fileFailure("open", s.path(), err)
	}
	ch := make(chan struct{}, 1)
	if err := s.watch.add(ch, own); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { s.watch.drop(ch) })
	return ch, nil
}

func (w *watchers) add(ch chan struct{}, own bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return core.Errorf(core.CodeStoreFailed, "the store is closed: pml is stopping")
	}
	if w.subs == nil {
		w.subs = map[chan struct{}]bool{}
	}
	w.subs[ch] = own
	if w.stop == nil && w.seq != nil {
		w.seen = w.seq.read()
		w.stop, w.done = make(chan struct{}), make(chan struct{})
		notify := w.notifier()
		go w.follow(notify, w.stop, w.done)
	}
	return nil
}

// drop closes a channel; the last one ends the watching.
func (w *watchers) drop(ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.subs[ch]; !ok {
		return
	}
	delete(w.subs, ch)
	close(ch)
	if len(w.subs) == 0 && w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
}

func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	done := w.done
	for ch := range w.subs {
		delete(w.subs, ch)
		close(ch)
	}
	if w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}

// committed wakes the other processes through the file, and returns what wakes
// this one. The store is locked.
func (w *watchers) committed(c committed) (wake func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := c.own
	if w.seq != nil {
		// A number left out is the commit of another process that was not seen yet.
		own = own && c.txid == w.seen+1
		w.seen = c.txid
		if err := w.seq.write(c.txid); err != nil {
			w.logger.Warn("cannot tell other processes of a commit; they see it within two seconds", "file", w.seq.path, "error", err)
		}
	}
	if len(w.subs) == 0 {
		return nil
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wake(own)
	}
}

// wake needs w.mu.
func (w *watchers) wake(own bool) {
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

// notifier watches the file; nil when the system cannot, which leaves the
// backstop.
func (w *watchers) notifier() *fsnotify.Watcher {
	n, err := fsnotify.NewWatcher()
	if err == nil {
		if err = n.Add(w.seq.path); err == nil {
			return n
		}
		_ = n.Close()
	}
	w.logger.Warn("cannot watch for commits of other processes; they are seen within two seconds", "file", w.seq.path, "error", err)
	return nil
}

func (w *watchers) follow(n *fsnotify.Watcher, stop, done chan struct{}) {
	defer close(done)
	var events chan fsnotify.Event
	var errs chan error
	if n != nil {
		defer n.Close()
		events, errs = n.Events, n.Errors
	}
	tick := time.NewTicker(backstop)
	defer tick.Stop()
	w.look() // what came between reading the number and watching the file
	for {
		select {
		case <-stop:
			return
		case <-events:
		case err := <-errs:
			w.logger.Debug("a watch failed; the number is read all the same", "error", err)
		case <-tick.C:
			if w.seq.renewed() && n != nil {
				w.seq.read() // creates it
				_ = n.Add(w.seq.path)
			}
		}
		w.look()
	}
}

// look wakes everybody when another process has committed.
func (w *watchers) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.seq.read(); now != w.seen {
		w.seen = now
		w.wake(false)
	}
}

// all wakes everybody.
func (w *watchers) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(false)
}
