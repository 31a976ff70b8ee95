package daemon

import (
	"context"
	"errors"
	"os"

	"github.com/casys-ai/pml/core"
)

// Stop asks the server of this home to stop and waits until it is gone. It
// returns what the server said of itself before, nil when there was none.
// Errors: core.CodeServerUnreachable for one that does not answer or cannot be
// told from another process; core.CodeTimeout for one that takes too long.
func (d *Daemon) Stop(ctx context.Context) (*Server, error) {
	unlock, err := d.lockStart(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := d.Find(ctx)
	if err != nil || s == nil {
		return nil, err
	}
	return s, d.end(ctx, s)
}

// end stops a server that has just answered. Nothing is sent to a process but
// to the one that the socket and server.json both name: ids of processes are
// used again.
func (d *Daemon) end(ctx context.Context, s *Server) error {
	rec, ok := ReadRecord(d.o.Home)
	if !ok || rec.PID != s.PID {
		return core.Errorf(core.CodeServerUnreachable, "the server on %s says that it is process %d, and server.json names another one; stop it where it was started",
			s.Socket, s.PID)
	}
	if err := terminate(s.PID); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return core.Errorf(core.CodeServerUnreachable, "cannot stop the pml server (process %d): %w", s.PID, err)
	}
	limited, cancel := context.WithTimeout(ctx, d.o.StopTime)
	defer cancel()
	l, err := take(limited, d.o.Home, lifeLock)
	if err == nil {
		return l.Close()
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return core.Errorf(core.CodeTimeout, "the pml server (process %d) has not stopped in %s; see %s", s.PID, d.o.StopTime, LogFile(d.o.Home))
	}
	return err
}
