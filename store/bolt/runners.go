package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// registry knows which runners live.
type registry interface {
	register() (store.Runner, error)
	alive(id string) (bool, error)
	// place is where it looks, for messages.
	place() string
}

// runnerDir keeps a file for each runner, which holds an OS lock on it while
// it lives. A runner is dead exactly when its lock can be taken; the kernel
// gives it back however the process ends.
type runnerDir struct {
	dir   string
	newID func() core.ID
	pid   int
}

type runner struct {
	id   string
	path string
	file *os.File
	once sync.Once
	err  error
}

// Register implements store.Runners.
func (s *Store) Register(ctx context.Context) (store.Runner, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	r, err := s.runners.register()
	if err != nil {
		return nil, fileFailure("write", s.runners.place(), err)
	}
	return r, nil
}

func (d *runnerDir) place() string { return d.dir }

func (d *runnerDir) register() (store.Runner, error) {
	if err := makeDir(d.dir); err != nil {
		return nil, err
	}
	d.tidy()
	id := string(d.newID())
	for {
		r, err := d.try(id)
		if r != nil || err != nil {
			return r, err
		}
	}
}

// tidy removes the files of dead runners that nobody asks for any more.
func (d *runnerDir) tidy() {
	files, err := filepath.Glob(filepath.Join(d.dir, "*.lock"))
	if err != nil {
		return
	}
	for _, f := range files {
		_, _ = d.alive(strings.TrimSuffix(filepath.Base(f), ".lock")) // removes a dead one
	}
}

// try creates and locks the file of a runner. Between the two somebody may
// find the file unlocked, take the runner for dead and remove it: then the
// lock is on a file without a name, and try returns nil.
func (d *runnerDir) try(id string) (*runner, error) {
	path := d.path(id)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !sameFile(f, path) {
		return nil, f.Close()
	}
	if _, err := fmt.Fprintf(f, "%d\n", d.pid); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &runner{id: id, path: path, file: f}, nil
}

func (d *runnerDir) path(id string) string { return filepath.Join(d.dir, id+".lock") }

// Lost implements store.Runner: the lock of a file is held until it is given up.
func (r *runner) Lost() <-chan struct{} { return nil }

// Gone implements store.Runner: that a lock is free is found out by trying.
func (r *runner) Gone() <-chan struct{} { return nil }

// Holds implements store.Runner: a process that is stopped keeps its lock.
func (r *runner) Holds(context.Context) error { return nil }

// ID implements store.Runner.
func (r *runner) ID() string { return r.id }

// Close implements store.Runner: from then on the runner is dead.
func (r *runner) Close() error {
	r.once.Do(func() {
		err := os.Remove(r.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		unlockFile(r.file)
		r.err = errors.Join(err, r.file.Close())
	})
	return r.err
}

// Alive implements store.Runners.
func (s *Store) Alive(_ context.Context, runner string) (bool, error) {
	alive, err := s.runners.alive(runner)
	if err != nil {
		return false, fileFailure("read", s.runners.place(), err)
	}
	return alive, nil
}

// alive probes with a shared lock, so that two who ask at the same time do not
// take each other for the runner. It removes the file of a dead one.
func (d *runnerDir) alive(id string) (bool, error) {
	if !store.ValidID(core.ID(id)) {
		return false, nil
	}
	path := d.path(id)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := probeFile(f)
	if free {
		if sameFile(f, path) {
			_ = os.Remove(path) // only tidiness: a file that is left is found dead again
		}
		unlockFile(f)
	}
	return !free && err == nil, errors.Join(err, f.Close())
}

// Claim implements store.Runners. A failed run can be claimed too: a retry
// takes it up again.
func (s *Store) Claim(ctx context.Context, id core.ID, runner string) (core.Run, error) {
	var fence error
	err := s.submit(ctx, &op{write: true, own: true, f: func(t *txn) error {
		run, err := t.mustRun(id)
		if err != nil {
			return err
		}
		if err := approval.Claimable(run.Run, t.now); err != nil {
			return err
		}
		// Nobody runs what has ended.
		if run.Runner != "" && run.Runner != runner && !run.State.Final() {
			alive, err := t.runners.alive(run.Runner)
			if err != nil {
				return fileFailure("read", t.runners.place(), err)
			}
			if alive {
				fence = core.Errorf(core.CodeFenced, "the run %s is being run by another process (runner %s)", id.Short(), run.Runner).
					WithRun(id).WithNext("pml", "workflows", "watch", string(id))
				return fence
			}
		}
		old := *run
		if run.State.Final() { // what ended it is past
			run.Abort = nil
		}
		run.Runner = runner
		run.Epoch++
		return t.putRun(&old, run)
	}})
	if err != nil && (fence == nil || core.CodeOf(err) != core.CodeFenced) {
		return core.Run{}, err
	}
	run, rerr := s.Run(ctx, id)
	if err == nil {
		err = rerr
	}
	return run, err
}
