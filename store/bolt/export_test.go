package bolt

import (
	"errors"
	"math"
	"os"
	"runtime"
	"syscall"

	bbolt "go.etcd.io/bbolt"

	"github.com/casys-ai/pml/store/bolt/redo"
)

// UnlockFile gives the lock of a file back.
var UnlockFile = unlockFile

type commitFunc func(*handle, *bbolt.Tx, *changes, func(*bbolt.Tx) error) (func() error, error)

// committing replaces the next commit.
func (s *Store) committing(f commitFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = func(h *handle, tx *bbolt.Tx, c *changes, finish func(*bbolt.Tx) error) (func() error, error) {
		s.mu.Lock()
		s.commit = nil
		s.mu.Unlock()
		return f(h, tx, c, finish)
	}
}

// FailCommit lets the next commit fail: before any of it is kept, or when all of it
// is, also in the file.
func (s *Store) FailCommit(after bool) {
	s.committing(func(h *handle, tx *bbolt.Tx, c *changes, finish func(*bbolt.Tx) error) (func() error, error) {
		if !after {
			return nil, errors.Join(tx.Rollback(), syscall.EIO)
		}
		write, err := s.opener.commit(h, tx, c, finish)
		if write != nil {
			err = write()
		}
		return nil, errors.Join(err, syscall.EIO)
	})
}

// HoldCommit lets the next commit wait, before it counts, until release is closed;
// held is closed when it has come that far.
func (s *Store) HoldCommit(held chan<- struct{}, release <-chan struct{}) {
	s.committing(func(h *handle, tx *bbolt.Tx, c *changes, finish func(*bbolt.Tx) error) (func() error, error) {
		close(held)
		<-release
		return s.opener.commit(h, tx, c, finish)
	})
}

// Written waits until the file has what was committed, and nobody uses it.
func (s *Store) Written() {
	for {
		s.mu.Lock()
		working := s.working
		s.mu.Unlock()
		if !working {
			return
		}
		runtime.Gosched()
	}
}

// inFile lets f bring the next commit into the file.
func (s *Store) inFile(f func(*bbolt.Tx) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish = func(tx *bbolt.Tx) error {
		s.mu.Lock()
		s.finish = (*bbolt.Tx).Commit
		s.mu.Unlock()
		return f(tx)
	}
}

// FailWrite lets the next commit fail on its way into the file, before it is there
// or after it.
func (s *Store) FailWrite(after bool) {
	s.inFile(func(tx *bbolt.Tx) error {
		if after {
			return errors.Join(tx.Commit(), syscall.EIO)
		}
		return errors.Join(tx.Rollback(), syscall.EIO)
	})
}

// HoldWrite lets the next commit wait on its way into the file until release is
// closed; held is closed when it has come that far.
func (s *Store) HoldWrite(held chan<- struct{}, release <-chan struct{}) {
	s.inFile(func(tx *bbolt.Tx) error {
		close(held)
		<-release
		return tx.Commit()
	})
}

// DieInWrite lets this store leave the next commit where a process that is killed
// may leave it: in the redo log, and not in the file.
func (s *Store) DieInWrite() { s.inFile(func(*bbolt.Tx) error { panic("killed") }) }

// LimitRedo makes the redo log hold so many bytes, and tells when the file was
// synced for it. Nothing may be committed yet.
func (s *Store) LimitRedo(n int64, synced func()) {
	r := s.redoer()
	r.limit = n
	r.sync = func(db *bbolt.DB) error {
		err := db.Sync()
		if err == nil {
			synced()
		}
		return err
	}
}

// MapRedo maps so many bytes of a file at least. Nothing may be open yet.
func (s *Store) MapRedo(n int64) { s.redoer().least = n }

// FlushedRedo tells when the redo log was synced for a head that another process
// may have left. Nothing may be committed yet.
func (s *Store) FlushedRedo(flushed func()) {
	s.redoer().flush = func(l *redo.Log) error {
		err := l.Sync()
		if err == nil {
			flushed()
		}
		return err
	}
}

// Settle syncs the file of a shared store that rests and leaves it open; false when
// it was not open.
func (s *Store) Settle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.opener.(*shared)
	if !ok || s.working || o.kept == nil {
		return false
	}
	o.settle(o.kept)
	return true
}

// Path is the database file.
func (s *Store) Path() string { return s.path() }

func (s *Store) redoer() *redoer {
	switch o := s.opener.(type) {
	case *shared:
		return &o.redo
	case *exclusive:
		return &o.redo
	}
	return nil
}

// Based reports the commit that is the base of the redo log in a folder, and how
// many records follow it; false when the log is off.
func Based(path string) (commit uint64, records int, ok bool, err error) {
	log, err := redo.Open(path, 0)
	if err != nil {
		return 0, 0, false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	raw, err := log.Load()
	b, ok := decodeBase(raw)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	list, err := log.Records(b.Commit, math.MaxInt)
	return b.Commit, len(list), true, err
}

// LastCommit is the number of the last commit in a file.
func LastCommit(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	m, err := readMeta(f, math.MaxInt64)
	return m.txid, err
}

// Remake makes the changes of a record in a transaction.
var Remake = remake
