package install

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
)

// sharedFile is a file that several processes change: one at a time does.
type sharedFile struct {
	path string
	log  *slog.Logger
	mu   sync.Mutex // held by who changes it in this process
}

// How long writers of other processes are waited for, where a write takes a few
// milliseconds, and how often it is tried meanwhile.
const (
	lockWait  = 5 * time.Second
	lockPause = 10 * time.Millisecond
)

// change runs a function that reads and writes the file while nobody else does.
func (s *sharedFile) change(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// lock keeps writers of the file in other processes out. The lock ends with the
// process that holds it; its file, which stays, is beside the one it is for.
func (s *sharedFile) lock() (unlock func(), err error) {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, diskError("make "+dir, err)
	}
	l := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if _, err := l.TryLockContext(ctx, lockPause); err != nil {
		return nil, core.Errorf(core.CodeStoreBusy, "another pml holds %s: %w; try again", l.Path(), errors.Join(err, l.Close()))
	}
	return func() {
		if err := l.Close(); err != nil {
			s.log.Warn("cannot release a lock", "file", l.Path(), "error", err)
		}
	}, nil
}
