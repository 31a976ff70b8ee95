package bolt

import (
	"errors"
	"syscall"

	bbolt "go.etcd.io/bbolt"
)

// UnlockFile gives the lock of a file back.
var UnlockFile = unlockFile

// FailCommit lets the next commit fail, before it is written or after it.
func (s *Store) FailCommit(after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish = func(tx *bbolt.Tx) error {
		s.mu.Lock()
		s.finish = (*bbolt.Tx).Commit
		s.mu.Unlock()
		if after {
			return errors.Join(tx.Commit(), syscall.EIO)
		}
		return errors.Join(tx.Rollback(), syscall.EIO)
	}
}

// HoldCommit lets the next commit wait until release is closed; held is closed
// when it has come that far.
func (s *Store) HoldCommit(held chan<- struct{}, release <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish = func(tx *bbolt.Tx) error {
		s.mu.Lock()
		s.finish = (*bbolt.Tx).Commit
		s.mu.Unlock()
		close(held)
		<-release
		return tx.Commit()
	}
}
