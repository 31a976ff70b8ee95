// Package bolt keeps runs in a bbolt file, which many processes share or one
// has for itself.
//
// Of a shared file no process keeps the lock. Every operation locks a sidecar file,
// opens the database, runs one transaction into which everything that waits in
// this process is drained, closes it and unlocks. So a process that is killed at
// any moment leaves a complete file behind and nothing locked. For a moment the
// open file is kept without a lock, to be used again if nobody has changed it.
//
// An exclusive file is opened once, by the first process that comes; others fail
// at once. Operations that wait share one transaction there too (batch.go), and reads
// run concurrently with it.
//
// Arguments and results of calls over 64 KiB, and inputs, contexts and results of
// runs over 4 KiB, are files in blobs/<run id>/
// (Name.blobs/<run id>/ of an exclusive file); they are durable
// before the reference to them is committed.
package bolt

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Options say where a store is and what it depends on.
type Options struct {
	// Dir is $PML_HOME. It is created on first use.
	Dir string
	// Name is the base name of the files: Name.db, Name.db.lock, Name.seq. Default
	// "pending", or "server" with Exclusive.
	Name string
	// Exclusive opens the file at once and keeps it until Close. Another process
	// that has it is core.CodeStoreBusy.
	Exclusive bool
	Clock     core.Clock
	NewID     func() core.ID
	// PID and Process name this process to others that wait for its lock.
	PID     int
	Process string
	// LockTimeout is how long an operation waits for the lock before it fails
	// with core.CodeStoreBusy. Default 5 s. An exclusive store does not wait.
	LockTimeout time.Duration
	// Logger gets damage and failed clean-ups. Default: nothing is logged.
	Logger *slog.Logger
}

// Store is a store.Store on a bbolt file. It is safe for concurrent use.
type Store struct {
	opts   Options
	access access
	blobs  blobs

	mu       sync.Mutex
	queue    []*op
	working  bool
	closed   bool
	turns    turns
	inflight sync.WaitGroup
	rest     *time.Timer // closes the file when nobody uses it
	batches  *batches

	watch   watchers
	runners registry
}

var _ store.Store = (*Store)(nil)

// Open prepares a store. A shared one opens nothing until first use, so that a
// process that needs nothing of it pays nothing; an exclusive one takes its file.
func Open(opts Options) (*Store, error) {
	if opts.Dir == "" || opts.Clock == nil || opts.NewID == nil {
		return nil, core.Errorf(core.CodeInternal, "bolt.Open needs Dir, Clock and NewID")
	}
	opts = opts.withDefaults()
	s := &Store{opts: opts}
	if opts.Exclusive {
		if err := s.openExclusive(); err != nil {
			return nil, err
		}
		return s, nil
	}
	s.openShared()
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "pending"
		if o.Exclusive {
			o.Name = "server"
		}
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (s *Store) openShared() {
	opts := s.opts
	seq := &seqFile{path: filepath.Join(opts.Dir, opts.Name+".seq")}
	s.blobs = blobs{dir: filepath.Join(opts.Dir, "blobs")}
	s.runners = &runnerDir{dir: filepath.Join(opts.Dir, "runners"), newID: opts.NewID, pid: opts.PID}
	s.access = newShared(opts, seq)
	s.watch = watchers{seq: seq, logger: opts.Logger}
	s.batches = s.newBatches()
}

// openExclusive gives the store names of its own for everything, so that
// nothing that tidies up after shared ones touches it.
func (s *Store) openExclusive() error {
	o := newExclusive(s.opts)
	s.blobs = blobs{dir: filepath.Join(s.opts.Dir, s.opts.Name+".blobs")}
	s.runners = &runnerSet{newID: s.opts.NewID}
	s.access = o
	s.watch = watchers{logger: s.opts.Logger}
	s.batches = s.newBatches()
	return o.start()
}

func (s *Store) newBatches() *batches {
	return &batches{
		access: s.access, path: s.path(), now: s.now, log: s.opts.Logger,
		runners: s.runners, watch: &s.watch, commit: (*bbolt.Tx).Commit,
	}
}

// path is the database file, for messages.
func (s *Store) path() string { return dbPath(s.opts) }

func (s *Store) now() time.Time { return s.opts.Clock.Now().UTC().Round(0) }

// Close refuses further operations, waits for those under way and closes the
// channels of Watch. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	s.inflight.Wait()
	if already {
		return nil
	}
	s.watch.close()
	s.watch.seq.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest != nil {
		s.rest.Stop()
	}
	if !s.working { // else the worker closes when it gets its lock
		s.access.close()
	}
	return nil
}

// makeDir creates a folder that only this user can enter.
func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }
