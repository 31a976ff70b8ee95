package process

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/mcp"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/server"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/postgres"
)

// requestGrace is how long requests may take to end when a server stops. With
// the grace of runs it stays under the ten seconds that a stop may take.
const requestGrace = time.Second

// serve runs a server until the context ends or, in the background, until
// nobody needs it. It reports to the process that starts it that it is ready, or why it cannot be.
func serve(ctx context.Context, o app.ServeOptions) (err error) {
	var missing error
	if o.Engine != "" { // before anything is open: another program may go on from here
		missing = elsewhere(ctx, o.Engine)
	}
	var ready *daemon.Ready
	if o.ReadyFD > 0 {
		if ready, err = daemon.OpenReady(o.ReadyFD); err != nil {
			return err
		}
		if o.Idle == 0 {
			o.Idle = daemon.IdleTime
		}
	}
	defer func() { ready.Tell(err) }()
	if missing != nil {
		return missing
	}
	s := &serving{o: o, ready: ready, environ: env.OS(), started: time.Now()}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

// serving is a server: what it is made of, in the order in which it was made.
type serving struct {
	o       app.ServeOptions
	ready   *daemon.Ready
	environ env.Environ
	started time.Time

	home      env.Home
	log       *slog.Logger
	claim     *daemon.Claim // nil for one beside another server of this home
	observer  *observer
	store     store.Store
	snapshot  func(ctx context.Context, dir string) error // of the database file; nil on PostgreSQL
	counts    *counts
	half      *service.Service
	offered   *gateways
	closeHalf func() error // with its store; the same answer each time
	own       ownHalf      // opened when a device asks for it
	keys      *server.Keys
	edge      *server.Server
	listeners []net.Listener
	tls       *tls.Config // of callers over TCP; nil: none
	closers   []io.Closer
	record    daemon.Record
	// letOthers lets others start servers again; nil where they always could.
	letOthers func()
}

// open makes all parts and listens, but answers nobody yet.
func (s *serving) open(ctx context.Context) error {
	var err error
	if s.o.Socket != "" {
		if err := daemon.CheckSocket(s.o.Socket); err != nil {
			return err
		}
	}
	if s.home, err = ownHome(s.o.Home, s.environ); err != nil {
		return err
	}
	if err := s.home.Ensure(); err != nil {
		return err
	}
	var log io.Closer
	s.log, log = serverLog(s.o, s.home)
	s.closers = append(s.closers, log)
	if err := s.take(ctx); err != nil {
		return err
	}
	if err := s.openHalf(ctx); err != nil {
		return err
	}
	if err := s.openEdge(); err != nil {
		return err
	}
	starter(s.home, s.environ, s.log)() // the process that notifies may have been killed before it did
	return s.listen()
}

// take makes this process the server of its home. One on an address of its own
// and with a database that others share may stand beside it. One that a person
// starts takes the place of one that pml has started by itself.
func (s *serving) take(ctx context.Context) error {
	beside := (s.o.Store != "" || s.o.Engine != "") && (s.o.TCP != "" || s.o.Socket != "")
	claim, err := s.claimHome(ctx, beside)
	switch {
	case err == nil:
		s.claim = claim
		s.closers = append(s.closers, claim)
	case core.CodeOf(err) == core.CodeStoreBusy && beside:
		s.log.Info("another server has the socket of this home; this one is at its own address only")
	default:
		return err
	}
	return nil
}

// claimHome is the claim to be the server of this home.
func (s *serving) claimHome(ctx context.Context, beside bool) (*daemon.Claim, error) {
	if s.ready != nil || beside { // its starter sees to it, or there is room for both
		return daemon.NewClaim(ctx, s.home.Dir)
	}
	d, err := newDaemon(s.home, s.environ)
	if err != nil {
		return nil, err
	}
	claim, left, started, err := d.TakeOver(ctx)
	if err != nil {
		return nil, err
	}
	s.letOthers = started
	if left != nil {
		s.log.Info("the server that pml had started by itself has left; this one goes on with its runs", "pid", left.PID)
	}
	return claim, nil
}

// openHalf opens the store and what runs workflows on it.
func (s *serving) openHalf(ctx context.Context) error {
	self, err := executable()
	if err != nil {
		return err
	}
	ws, err := s.workspace()
	if err != nil {
		return err
	}
	if s.observer, err = newObserver(ctx, s); err != nil {
		return err
	}
	s.closers = append(s.closers, s.observer)
	kept, err := s.openStoreHalted(ctx)
	if err != nil {
		return err
	}
	s.store = timed{kept, s.observer.metrics.ObserveStore}
	s.counts = &counts{store: s.store}
	s.half = service.Open(service.Options{
		Side: core.SideServer, Home: s.home, Workspace: ws, Environ: s.environ, Names: env.OSNames(),
		Store: s.store, Sandbox: sandbox.NewPool(sandbox.Options{Command: []string{self, sandboxCommand}, Reuse: s.o.TCP == ""}),
		Hooks: sandbox.NewPool(hook.PoolOptions([]string{self, sandboxCommand}, 0)),
		Clock: systemClock{}, NewID: newID, LookPath: exec.LookPath, Logger: s.log, Version: buildVersion().Version,
		By: core.Actor{Who: userName(), Via: core.ViaHTTP}, Publish: s.observer.publish,
	})
	s.log = s.half.Logger() // leaves values of keys out
	s.closeHalf = sync.OnceValue(func() error {
		if s.offered != nil { // it asks the half
			return errors.Join(s.offered.Close(), s.half.Close())
		}
		return s.half.Close()
	})
	return nil
}

// workspace is the server's own: of the folder in which a person starts it. In
// the background there is none, and an empty folder stands for it: callers on
// the socket name theirs.
func (s *serving) workspace() (env.Workspace, error) {
	if s.o.ReadyFD == 0 {
		return workspaceOf("", s.environ)
	}
	dir := filepath.Join(s.home.Dir, "server")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return env.Workspace{}, core.Errorf(core.CodeStoreFailed, "cannot make the folder %s: %w", dir, err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return env.Workspace{}, core.Errorf(core.CodeStoreFailed, "cannot use the folder %s: %w", dir, err)
	}
	return env.Workspace{Dir: dir, Source: "server"}, nil
}

// openStoreHalted opens the store, in which calls are halted if they are on this machine:
// somebody halted them while no server ran. Where that cannot be known no server starts.
func (s *serving) openStoreHalted(ctx context.Context) (store.Store, error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	h, err := haltedHere(ctx, s.home)
	if err == nil && h != nil {
		s.log.Warn("all calls of this machine are halted, so those of this server are", "by", h.By.Name(), "reason", h.Reason)
		_, err = st.Halt(ctx, core.Halt{By: h.By, At: h.At, Reason: h.Reason})
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// haltedHere is who has halted the calls of this machine, nil for nobody.
func haltedHere(ctx context.Context, home env.Home) (*core.Halt, error) {
	if _, err := os.Stat(filepath.Join(home.PendingDir(), "pending.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	own, err := bolt.Open(bolt.Options{Dir: home.PendingDir(), Clock: systemClock{}, NewID: newID, PID: os.Getpid(), Process: "pml serve"})
	if err != nil {
		return nil, err
	}
	h, err := own.Halted(ctx)
	return h, errors.Join(err, own.Close())
}

func (s *serving) openStore(ctx context.Context) (store.Store, error) {
	if s.o.Engine != "" {
		return s.openEngine(ctx)
	}
	if s.o.Store != "" {
		return postgres.Open(ctx, postgres.Options{URL: s.o.Store, Clock: systemClock{}, NewID: newID, Logger: s.log})
	}
	st, err := bolt.Open(bolt.Options{
		Dir: s.home.Dir, Name: "server", Exclusive: true, Clock: systemClock{}, NewID: newID,
		PID: os.Getpid(), Process: "pml serve", Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.snapshot = st.Snapshot
	return st, nil
}

// storeKind names the store of a server without what its URL may hold.
func storeKind(o app.ServeOptions) string {
	switch {
	case o.Engine != "":
		scheme, _, _ := strings.Cut(o.Engine, ":")
		return scheme
	case o.Store != "":
		return "postgres"
	}
	return "bbolt"
}

// openEdge makes what callers speak to: HTTP, and MCP behind the same checks.
func (s *serving) openEdge() error {
	s.offered = &gateways{in: s.half.In}
	tools, err := newMCP(s.home, mcp.Options{
		Log: s.log, Scope: server.ScopeFrom, Proxy: s.offered.of,
		Backend: func(scope api.Scope) (mcp.Backend, error) { return s.half.In(scope) },
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, &s.own)
	s.keys = server.NewKeys(s.home.Keys(), systemClock{})
	s.edge = server.New(server.Options{
		Half: s.scoped, Clock: systemClock{}, Keys: s.keys, Logger: s.log, Version: buildVersion().Version, Status: s.status,
		User: userName(), Faces: s.faces(), Hosts: s.o.Hosts, Origins: s.o.Origins, MetricsKeys: s.o.Metrics, Limits: server.Limits{Grace: requestGrace},
		Visitors: server.NewVisitors(s.home.Visitors(), systemClock{}), Own: s.ownHalf, PlainPages: s.o.PlainPages,
		Backup: s.backup, MCP: tools.Handler(), Lag: s.observer.metrics.ObserveEventLag,
		Metrics: s.observer.handler(func() int { return s.edge.Readers() }),
	})
	return nil
}

// scoped is the half that a caller may use.
func (s *serving) scoped(scope api.Scope) (server.Backend, error) { return s.half.In(scope) }
