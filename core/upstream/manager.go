package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	// maxBackOff is the longest wait before a server that keeps failing is
	// started again.
	maxBackOff = 5 * time.Second
	// changeInterval is the shortest time between two tellings that a server's
	// tools have changed.
	changeInterval = 250 * time.Millisecond
)

// Manager starts, calls and stops servers. Its methods may be called
// concurrently.
type Manager struct {
	opts    Options
	limits  Limits
	log     *slog.Logger
	schemas schemaCache
	dialer  *dialer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // starts and watchers

	mu      sync.Mutex
	servers map[key]*server
	records records
	// listeners are the peers that use a shared connection, by server and their ID.
	listeners map[id]map[string]*Peer
	// levels are those from which on servers were told to log.
	levels map[id]json.RawMessage
	// editions counts the connections of all servers.
	editions Edition
	closed   bool
}

// server is one configured server, running or not. Manager.mu guards it.
type server struct {
	key    key
	launch Launch
	conn   *conn
	start  *start // the start that is under way
	active int    // callers that hold it
	// retired servers are stopped as soon as nobody holds them.
	retired, removed bool
	idle             *time.Timer
	failures         int           // in a row, without a call that was answered
	ready            chan struct{} // closed when it may be started again
	readyAt          time.Time     // when that is
	places           places
	// watched are the resources that peers have subscribed to, by URI.
	watched map[string]map[string]bool
}

// start is one attempt, shared by all who wait for it.
type start struct {
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelCauseFunc
	conn   *conn
	err    error
}

// New returns a Manager that has started nothing yet. Close it.
func New(opts Options) *Manager {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ClientName == "" {
		opts.ClientName = "pml"
	}
	if opts.ClientVersion == "" {
		opts.ClientVersion = "0"
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{
		opts: opts, limits: opts.Limits.withDefaults(), log: opts.Logger, ctx: ctx, cancel: cancel,
		servers: map[key]*server{}, records: records{}, listeners: map[id]map[string]*Peer{}, levels: map[id]json.RawMessage{},
	}
	m.dialer = &dialer{
		opts: opts, limits: m.limits, log: m.log, spawn: newSpawner(ctx), life: ctx, wg: &m.wg,
		noted: m.noted, beside: m.beside, tell: m.tell, eras: map[key]knownEra{},
	}
	return m
}

// beside runs something in the background, which Close waits for, unless it was
// called already.
func (m *Manager) beside(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.wg.Go(f)
	}
}

func errStopping(name string) *core.Error {
	return core.Errorf(core.CodeCancelled, "server %q: pml is stopping", name)
}

func (m *Manager) stopping() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// acquire returns a live connection, starting the server when it must, unless
// only one edition will do. The caller holds the server until it calls release.
func (m *Manager) acquire(ctx context.Context, l Launch, only Edition) (*server, *conn, error) {
	k := keyOf(l)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, nil, errStopping(l.Name)
	}
	if only != 0 && !m.servers[k].is(only) {
		m.mu.Unlock()
		return nil, nil, core.Errorf(core.CodeServerUnreachable, "server %q has ended since its tools were listed; %w", l.Name, ErrOtherEdition)
	}
	s := m.server(k, l)
	m.listen(k, l.Peer)
	s.active++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	if c := s.conn; c != nil && !c.isLost() {
		m.mu.Unlock()
		return s, c, nil
	}
	m.lost(s)
	st := s.start
	if st == nil {
		st = &start{done: make(chan struct{})}
		st.ctx, st.cancel = context.WithCancelCause(m.ctx)
		s.start, s.launch = st, l
		m.wg.Add(1)
		go m.run(s, st, s.ready)
	}
	m.mu.Unlock()
	select {
	case <-st.done:
		if st.err != nil {
			m.release(s)
			return nil, nil, st.err
		}
		return s, st.conn, nil
	case <-ctx.Done():
		m.release(s)
		return nil, nil, m.gaveUp(ctx, l)
	}
}

// gaveUp is the error of a caller that does not wait any longer for a server to start,
// with what the server has said meanwhile where the time was up.
func (m *Manager) gaveUp(ctx context.Context, l Launch) *core.Error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return cancelled(ctx, fmt.Sprintf("starting server %q", l.Name))
	}
	m.mu.Lock()
	proc := m.records.of(keyOf(l).id()).proc
	m.mu.Unlock()
	said := ""
	if proc != nil {
		said = proc.lastSaid(false)
	}
	return core.Errorf(core.CodeCancelled, "server %q has not answered initialize in the time that there was%s", l.Name, said)
}

// server returns the entry of a launch and retires those of the same server
// with another digest. m.mu is held.
func (m *Manager) server(k key, l Launch) *server {
	s, ok := m.servers[k]
	if ok {
		return s
	}
	for other, old := range m.servers {
		if other.name == k.name && other.workspace == k.workspace && other.digest != k.digest {
			old.retired = true
			if old.active == 0 {
				m.remove(old)
			}
		}
	}
	s = &server{key: k, launch: l}
	m.servers[k] = s
	return s
}

// remove forgets a server and stops it in the background. m.mu is held.
func (m *Manager) remove(s *server) {
	s.removed = true
	delete(m.servers, s.key)
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.start != nil {
		s.start.cancel(errStopped(s.key.name, "it was starting"))
	}
	if c := s.conn; c != nil {
		s.conn = nil
		c.lose(endedByUs) // its watcher closes it
	}
}

// release gives a server back; an unused one is stopped after a while.
func (m *Manager) release(s *server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.active--
	if s.active > 0 || s.removed || m.closed {
		return
	}
	if s.retired {
		m.remove(s)
		return
	}
	m.rest(s)
}

// rest stops a server after a while unless somebody uses it, or waits for what
// it tells. m.mu is held.
func (m *Manager) rest(s *server) {
	if m.limits.Idle < 0 || s.active > 0 || s.removed || m.closed || len(s.watched) > 0 {
		return
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	var t *time.Timer
	t = time.AfterFunc(m.limits.Idle, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s.idle == t && s.active == 0 && !s.removed {
			m.log.Debug("stopping an idle server", "server", s.key.name)
			m.remove(s)
		}
	})
	s.idle = t
}

// run is one attempt to start a server, after its back-off.
func (m *Manager) run(s *server, st *start, ready <-chan struct{}) {
	defer m.wg.Done()
	if ready != nil {
		select {
		case <-ready:
		case <-st.ctx.Done():
		}
	}
	began := m.opts.now()
	c, err := m.dialer.dial(st.ctx, s.launch)
	took := m.opts.now().Sub(began)
	m.mu.Lock()
	s.start = nil
	again := false
	r := m.records.of(s.key.id())
	switch {
	case m.closed:
		err = errStopping(s.key.name)
	case s.removed:
		err = errStopped(s.key.name, "it was starting")
	case err != nil:
		m.failed(s, err)
		r.lastErr = err.Error()
	default:
		m.editions++
		c.edition, s.conn = m.editions, c
		r.conns++
		r.start, r.protocol, r.server = took, c.protocol, c.server
		again = r.conns > 1
	}
	watched, level := slices.Collect(maps.Keys(s.watched)), m.levels[s.key.id()]
	m.mu.Unlock()
	st.conn, st.err = c, err
	if c != nil {
		m.wg.Add(1)
		go m.watch(s, c)
		if err != nil {
			c.lose(endedByUs)
		} else {
			c.takeUp(watched, level)
		}
	}
	if again { // before anybody calls the new one
		m.toolsChanged(s.key)
	}
	close(st.done)
	st.cancel(nil)
}

func (m *Manager) toolsChanged(k key) {
	defer core.Recover(m.log, "it was told that tools have changed", nil, "server", k.name)
	if m.opts.ToolsChanged != nil {
		m.opts.ToolsChanged(k.name, k.workspace)
	}
}

// noted remembers a process from its first moment on.
func (m *Manager) noted(l Launch, p *process) {
	k := keyOf(l)
	m.mu.Lock()
	m.records.of(k.id()).proc = p
	m.mu.Unlock()
	if m.opts.Started == nil {
		return
	}
	m.beside(func() {
		defer core.Recover(m.log, "the process of a server was told of", nil, "server", k.name)
		ended := m.opts.Started(k.name, k.workspace, p.cmd.Process.Pid)
		<-p.exited
		ended()
	})
}

// watch tells when a connection announces other tools, and closes it when it
// is lost.
func (m *Manager) watch(s *server, c *conn) {
	defer m.wg.Done()
	defer c.survive("a connection was watched")
	m.tellChanges(s.key, c)
	m.mu.Lock()
	m.lost(s)
	m.mu.Unlock()
	if err := c.close(m.limits.StopGrace); err != nil {
		m.log.Debug("closing a server", "server", c.name, "err", plain(err))
	}
	if c.end != endedByUs && c.proc != nil {
		text := "server " + strconv.Quote(c.name) + " " + c.gone("")
		m.mu.Lock()
		m.records.of(s.key.id()).lastErr = text
		m.mu.Unlock()
	}
}

// tellChanges reports each change of a connection's tools (Options.ToolsChanged) until
// the connection is lost. It merges changes that a server announces quickly one after
// the other.
func (m *Manager) tellChanges(k key, c *conn) {
	changed, pause := c.changed, time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-changed:
			m.toolsChanged(k)
			changed = nil // what comes meanwhile is kept
			pause.Reset(changeInterval)
		case <-pause.C:
			changed = c.changed
		case <-c.lost:
			return
		case <-m.ctx.Done():
			return
		}
	}
}

// abandon gives up a connection over HTTP that has failed, so that the next
// call starts afresh.
func (m *Manager) abandon(s *server, c *conn, err error) {
	m.mu.Lock()
	m.records.of(s.key.id()).lastErr = err.Error()
	m.mu.Unlock()
	c.lose(endedItself)
}

// lost takes away a connection that was lost by itself, once, whoever notices
// first. m.mu is held.
func (m *Manager) lost(s *server) {
	if s.conn != nil && s.conn.isLost() && !m.closed {
		s.conn = nil
		m.failed(s, nil)
	}
}

// failed counts a failure and sets when the server may be started again: at
// once after the first one, and when it waits for somebody's decision: for its
// authorization, or to be trusted. m.mu is held.
func (m *Manager) failed(s *server, err error) {
	s.failures++
	s.ready, s.readyAt = nil, time.Time{}
	if s.failures < 2 || err != nil && core.CodeOf(err) != core.CodeServerUnreachable {
		return
	}
	wait := min(maxBackOff, 100*time.Millisecond<<min(s.failures-2, 10))
	ready := make(chan struct{})
	s.ready, s.readyAt = ready, m.opts.now().Add(wait)
	time.AfterFunc(wait, func() { close(ready) })
}

// alone reports whether the caller is the only one who holds the server.
func (m *Manager) alone(s *server) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.active == 1
}

// answered notes that the server works.
func (m *Manager) answered(s *server) {
	m.mu.Lock()
	s.failures, s.ready, s.readyAt = 0, nil, time.Time{}
	m.mu.Unlock()
}

// Tools lists a server's tools, all pages, and starts the server when it must.
// They are remembered until the server says that they changed or is stopped.
// Errors: core.CodeServerUnreachable, core.CodeAuth, core.CodeCancelled. The
// caller must not change what it gets.
func (m *Manager) Tools(ctx context.Context, l Launch) ([]core.Tool, error) {
	tools, _, err := m.List(ctx, l)
	return tools, err
}

// Close stops every server, each with its whole process group, and waits for
// them. Calls that still run fail. Further calls are refused; a second Close
// does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		m.wg.Wait()
		return nil
	}
	m.closed = true
	var conns []*conn
	for _, s := range m.servers {
		if s.idle != nil {
			s.idle.Stop()
		}
		if s.conn != nil {
			s.conn.lose(endedByUs)
			conns = append(conns, s.conn)
			s.conn = nil
		}
	}
	m.mu.Unlock()
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			defer c.survive("a connection was closed")
			errs[i] = c.close(m.limits.StopGrace)
		})
	}
	wg.Wait()
	m.cancel() // starts give up and watchers close what is left
	m.wg.Wait()
	return errors.Join(errs...)
}
