package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
)

// notifyLock is held by the process that sends the notifications of a home.
const notifyLock = "notify.lock"

// NotifyLogFile is where that process logs, if it runs in the background.
func NotifyLogFile(home string) string { return filepath.Join(home, "logs", "notify.log") }

// Alone makes this process the one that sends the notifications of a home, until release
// or its end. Where there is one already: core.CodeStoreBusy.
func Alone(ctx context.Context, home string) (release func(), err error) {
	limited, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	l, err := take(limited, home, notifyLock)
	switch {
	case err == nil:
		return func() { _ = l.Close() }, nil
	case limited.Err() == nil || ctx.Err() != nil:
		return nil, err
	}
	return nil, core.Errorf(core.CodeStoreBusy, "another pml process sends the notifications of %s already", home)
}

// Notifies reports whether a process sends the notifications of a home.
func Notifies(home string) bool {
	l := flock.New(filepath.Join(home, notifyLock), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if ok {
		_ = l.Close()
	}
	return err == nil && !ok
}

// Detach starts a program that outlives this process: a session of its own at the root
// folder, with an environment of its own and nothing open but its log. It is not waited for.
func Detach(argv, environ []string, log string) error {
	if len(argv) == 0 {
		return errors.New("there is no program to start")
	}
	return detach(argv, environ, log)
}
