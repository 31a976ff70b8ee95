package process

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/server"
)

// listen listens where the options say, and says in server.json where that is.
func (s *serving) listen() error {
	s.record = daemon.Record{
		Version: buildVersion().Version, Protocol: api.Protocol, PID: os.Getpid(), StartedAt: s.started.UTC(), Background: s.o.ReadyFD > 0,
	}
	path := s.o.Socket
	if path == "" && s.claim != nil {
		var err error
		if path, err = daemon.SocketPath(s.home.Dir, s.environ); err != nil {
			return err
		}
	}
	if path != "" {
		ln, err := server.ListenUnix(path)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, ln)
		s.record.Socket = path
	}
	if s.o.TCP != "" {
		var err error
		if s.tls, err = server.TLS(s.o.TLSCert, s.o.TLSKey); err != nil {
			return err
		}
		keys, err := s.keys.List()
		if err != nil {
			return err
		}
		ln, err := server.ListenTCP(s.o.TCP)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			s.log.Warn("there is no API key: only paired browsers get in at the address (pml pair NAME), and nobody by HTTP or MCP (pml server key add NAME)")
		}
		s.listeners = append(s.listeners, ln)
		s.record.URL = "http://" + ln.Addr().String()
		if s.tls != nil {
			s.record.URL = "https://" + ln.Addr().String()
		}
	}
	return nil
}

// run answers, takes up what others left, and goes on until the context ends,
// nobody needs the server any more, or a listener fails.
func (s *serving) run(parent context.Context) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, len(s.listeners)+1)
	part := func(what string, do func() error) {
		wg.Go(func() {
			switch err := do(); {
			case err == nil:
			case ctx.Err() != nil: // it was stopped in the middle of something
				s.log.Debug("a part of the server ended", "part", what, "error", core.AsError(err))
			default:
				s.log.Error("a part of the server failed", "part", what, "error", core.AsError(err))
				failed <- err
				stop()
			}
		})
	}
	idle := &daemon.Idle{After: s.o.Idle, Clock: systemClock{}, Busy: s.busy}
	for _, ln := range s.listeners {
		at := idle.Listener(ln)
		if s.tls != nil && ln.Addr().Network() == "tcp" {
			at = tls.NewListener(at, s.tls)
		}
		part("http", func() error { return s.edge.Serve(ctx, at) })
	}
	s.listeners = nil // the edge closes them
	part("metrics", func() error { return s.followStored(ctx) })
	part("counts", func() error { return s.counts.follow(ctx) })
	part("notifications", func() error {
		if err := s.half.Notify(ctx, 0); err != nil && ctx.Err() == nil { // no reason to stop a server
			s.log.Warn("nobody is told of what waits", "error", core.AsError(err))
		}
		return nil
	})
	part("supervisor", func() error { return s.half.Supervise(ctx) })
	if err := s.announce(); err != nil {
		stop()
		wg.Wait()
		return err
	}
	if s.o.Idle > 0 && idle.Wait(ctx) {
		s.log.Info("nobody needs the server: it leaves", "idle", s.o.Idle.String())
		stop()
	}
	<-ctx.Done()
	s.log.Info("the server stops")
	// Runs end first or at the same time: requests that wait for them end with
	// them.
	err := s.closeHalf()
	wg.Wait()
	s.edge.Close()
	close(failed)
	return errors.Join(err, <-failed)
}

// announce says where the server is, to whoever looks for it, its starter and
// the person who started it.
func (s *serving) announce() error {
	if s.claim != nil {
		if err := s.claim.Publish(s.record); err != nil {
			return err
		}
	}
	if s.letOthers != nil { // they find this one now
		s.letOthers()
	}
	var at []string
	if s.record.Socket != "" {
		at = append(at, "unix://"+s.record.Socket)
	}
	if s.record.URL != "" {
		at = append(at, s.record.URL)
	}
	level := slog.LevelInfo
	if s.o.Ready != nil { // a person reads it in plain words
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, "the server is ready", "version", s.record.Version, "pid", s.record.PID, "at", at, "store", storeKind(s.o))
	s.ready.Tell(nil)
	if s.o.Ready != nil {
		s.o.Ready(at)
	}
	return nil
}

// close gives back what open took, in the opposite order.
func (s *serving) close() error {
	var errs []error
	for _, ln := range s.listeners {
		errs = append(errs, ln.Close())
	}
	if s.edge != nil {
		s.edge.Close()
	}
	if s.closeHalf != nil {
		errs = append(errs, s.closeHalf())
	}
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	if s.letOthers != nil {
		s.letOthers()
	}
	return errors.Join(errs...)
}

// status is what the server says of itself.
func (s *serving) status(ctx context.Context) api.ServerStatus {
	n, err := s.counts.get(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot count what there is", "error", core.AsError(err))
	}
	return api.ServerStatus{
		Version: s.record.Version, Protocol: s.record.Protocol, PID: s.record.PID, StartedAt: s.record.StartedAt,
		Socket: s.record.Socket, URL: s.record.URL, Store: storeKind(s.o), Background: s.record.Background,
		Running: n.running, Waiting: n.waiting, Approvals: n.approvals,
	}
}

// busy reports whether anything runs.
func (s *serving) busy(ctx context.Context) (bool, error) {
	n, err := s.counts.runs(ctx, core.RunRunning)
	return n > 0, err
}
