package atomicfile

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/flock"
)

// lockWait is for how long another one who holds a lock is waited for, lockPause between
// two looks.
const (
	lockWait  = 5 * time.Second
	lockPause = 2 * time.Millisecond
)

// Lock keeps every other process, and every other caller in this one, that locks the same
// file out until unlock: for whoever compares and replaces. The file is made, and stays; the
// lock ends with the process. Who holds it for more than five seconds is an error.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	l := flock.New(name, flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if _, err := l.TryLockContext(ctx, lockPause); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return func() { _ = l.Close() }, nil
}
