package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
)

// The lock files. Neither is ever removed: a lock on a file that has no name
// any more would keep nobody out.
const (
	startLock = "server.lock"     // held by whoever starts a server
	lifeLock  = "server.run.lock" // held by a server as long as it lives
)

// take waits for the lock of a file of the home. It blocks a thread instead of
// asking again and again; at the end of the context the late lock is given back.
func take(ctx context.Context, home, name string) (*flock.Flock, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "cannot create pml's home %s: %w; set PML_HOME or pass --home to use another folder", home, err)
	}
	l := flock.New(filepath.Join(home, name), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if ok || err != nil {
		return l, lockError(l, err)
	}
	got := make(chan error, 1)
	go func() { got <- l.Lock() }()
	select {
	case err := <-got:
		return l, lockError(l, err)
	case <-ctx.Done():
		go func() {
			if <-got == nil {
				_ = l.Close() // nobody waits for it any more
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func lockError(l *flock.Flock, err error) error {
	if err == nil {
		return nil
	}
	return core.Errorf(core.CodeStoreFailed, "cannot lock %s: %w; make the folder writable, or use another PML_HOME", l.Path(), err)
}

// lockStart waits until no other process starts or stops a server of this home.
func (d *Daemon) lockStart(ctx context.Context) (unlock func(), err error) {
	limited, cancel := context.WithTimeout(ctx, d.o.StartTime+d.o.StopTime)
	defer cancel()
	l, err := take(limited, d.o.Home, startLock)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return nil, core.Errorf(core.CodeServerUnreachable, "another pml has been starting a server for too long; see %s", LogFile(d.o.Home))
		}
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

// Claim is the standing of a process as the server of a home.
type Claim struct {
	home string
	lock *flock.Flock
	pid  int // of the record that it has written, 0 before
}

// claimTime is how long a new server waits for one that is leaving.
const claimTime = 2 * time.Second

// NewClaim makes this process the server of a home until Close; the end of the
// process, whatever ends it, gives the claim back. Another one there:
// core.CodeStoreBusy.
func NewClaim(ctx context.Context, home string) (*Claim, error) {
	limited, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	l, err := take(limited, home, lifeLock)
	if err == nil {
		return &Claim{home: home, lock: l}, nil
	}
	if limited.Err() == nil || ctx.Err() != nil {
		return nil, err
	}
	who := "another process"
	if rec, ok := ReadRecord(home); ok {
		who = "process " + itoa(rec.PID)
	}
	return nil, core.Errorf(core.CodeStoreBusy, "a pml server runs already for %s (%s); use it, or stop it", home, who).WithNext("pml", "server", "stop")
}

// Publish writes server.json.
func (c *Claim) Publish(r Record) error {
	if err := writeRecord(c.home, r); err != nil {
		return err
	}
	c.pid = r.PID
	return nil
}

// Close takes server.json away and gives the claim back.
func (c *Claim) Close() error {
	if rec, ok := ReadRecord(c.home); ok && rec.PID == c.pid {
		_ = os.Remove(recordFile(c.home)) // it is a hint; a stale one does no harm
	}
	return c.lock.Close()
}

// goneTime is how long one look at the lock of a server may take.
const goneTime = 100 * time.Millisecond

// gone waits a moment for a server to end; false when it lives on.
func gone(ctx context.Context, home string) bool {
	limited, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	l, err := take(limited, home, lifeLock)
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
