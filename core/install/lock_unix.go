//go:build unix

package install

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockFile locks a file for this process; closing it, or dying, releases it.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for range lockTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
