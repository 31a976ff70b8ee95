package bolt

import (
	"errors"
	"syscall"

	bbolt "go.etcd.io/bbolt"
)

// UnlockFile gives the lock of a file back.
var UnlockFile = unlockFile

// committing replaces the next commit.
func (s *Store) committing(f func(*bbolt.Tx) error) {
	b := s.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commit = func(tx *bbolt.Tx) error {
		b.mu.Lock()
		b.commit = (*bbolt.Tx).Commit
		b.mu.Unlock()
		return f(tx)
	}
}

// FailCommit lets the next commit fail: before any of it is in the file, or when all
// of it is.
func (s *Store) FailCommit(after bool) {
	s.committing(func(tx *bbolt.Tx) error {
		if !after {
			return errors.Join(tx.Rollback(), syscall.EIO)
		}
		return errors.Join(tx.Commit(), syscall.EIO)
	})
}

// HoldCommit lets the next commit wait until release is closed; held is closed when
// it has come that far.
func (s *Store) HoldCommit(held chan<- struct{}, release <-chan struct{}) {
	s.committing(func(tx *bbolt.Tx) error {
		close(held)
		<-release
		return tx.Commit()
	})
}

// Path is the database file.
func (s *Store) Path() string { return s.path() }

// Remake makes the changes of a record of an old redo log in a transaction.
var Remake = remake

// CreateBuckets sets up an empty file.
var CreateBuckets = createBuckets
