package mcp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// holder is who a session belongs to: nobody else may use its id.
type holder struct{ owner, workspace string }

func holderOf(s api.Scope) holder { return holder{s.Owner, s.Workspace} }

// session is one client: a connection over stdio, an id over HTTP, or a single
// request of a revision that has no sessions. It is what mcp-go calls a
// ClientSession.
type session struct {
	id     string
	holder holder
	// out takes what mcp-go itself sends outside of answers.
	out   chan mcp.JSONRPCNotification
	ready atomic.Bool

	questions questions
	// unheard is set once it is known that no answer of this client decides.
	unheard atomic.Bool
	subs    subscriptions

	mu       sync.Mutex
	info     mcp.Implementation
	can      mcp.ClientCapabilities
	asks     abilities
	logs     int // the level that was set, as in levels; 0: none was
	version  string
	used     time.Time
	inFlight map[string]context.CancelCauseFunc // by the text of the request's id
	main     *stream                            // what belongs to no call; nil: nobody listens
	peer     *peer                              // as upstream servers see the client; nil: not yet
	heard    map[core.ID]int64                  // how much of the log of each run was sent
	filter   mcp.SubscriptionFilter             // of one that listens in a modern revision
	gone     bool
	over     chan struct{} // closed when it is gone
	shook    chan struct{} // closed when the client has shaken hands
}

var (
	_ server.ClientSession         = (*session)(nil)
	_ server.SessionWithClientInfo = (*session)(nil)
)

func newSession(id string, h holder, now time.Time) *session {
	return &session{
		id: id, holder: h, used: now, out: make(chan mcp.JSONRPCNotification, 16), inFlight: map[string]context.CancelCauseFunc{},
		over: make(chan struct{}), shook: make(chan struct{}),
	}
}

// SessionID implements server.ClientSession.
func (s *session) SessionID() string { return s.id }

// NotificationChannel implements server.ClientSession.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.out }

// Initialize implements server.ClientSession.
func (s *session) Initialize() { s.ready.Store(true) }

// Initialized implements server.ClientSession.
func (s *session) Initialized() bool { return s.ready.Load() }

// GetClientInfo implements server.SessionWithClientInfo.
func (s *session) GetClientInfo() mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// SetClientInfo implements server.SessionWithClientInfo.
func (s *session) SetClientInfo(info mcp.Implementation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// GetClientCapabilities implements server.SessionWithClientInfo.
func (s *session) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can
}

// SetClientCapabilities implements server.SessionWithClientInfo.
func (s *session) SetClientCapabilities(can mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.can = can
}

// SetProtocolVersion is told the revision that was agreed on.
func (s *session) SetProtocolVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// initialized is told what the client has declared when it shook hands.
func (s *session) initialized(capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks, s.peer = abilitiesOf(capabilities), nil
	select {
	case <-s.shook:
	default:
		close(s.shook)
	}
}

func (s *session) abilities() abilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks
}

func (s *session) level() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs
}

func (s *session) setLevel(level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = level
}

// mainStream is the stream for what belongs to no call, nil without one.
func (s *session) mainStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.main
}

// attach makes a stream the session's own, if it has none. detach undoes it.
func (s *session) attach(out *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main != nil || s.gone {
		return false
	}
	s.main = out
	return true
}

func (s *session) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.main = nil
}

// ProtocolVersion is the revision that was agreed on.
func (s *session) ProtocolVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Causes of the end of a request's context.
var (
	errCancelled = errors.New("the client cancelled the request")
	errEnded     = errors.New("the session has ended")
	errTooMany   = errors.New("too many calls at the same time")
	errSameID    = errors.New("the id is that of a request that is not answered yet")
)

// begin registers a request, so that it can be cancelled. The returned function
// unregisters it.
func (s *session) begin(ctx context.Context, id string, limit int) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, nil, errEnded
	}
	if len(s.inFlight) >= limit {
		return nil, nil, errTooMany
	}
	if _, ok := s.inFlight[id]; ok {
		return nil, nil, errSameID
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.inFlight[id] = cancel
	return ctx, func() {
		s.mu.Lock()
		delete(s.inFlight, id)
		s.mu.Unlock()
		cancel(nil)
	}, nil
}

// cancel stops waiting for the answer to a request.
func (s *session) cancel(id string) {
	s.mu.Lock()
	cancel := s.inFlight[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// end cancels all that is in flight.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		close(s.over)
	}
	for _, cancel := range s.inFlight {
		cancel(errEnded)
	}
}

func (s *session) touch(now time.Time) {
	s.mu.Lock()
	s.used = now
	s.mu.Unlock()
}

// idleSince is when the session was used last; busy when it is being used.
func (s *session) idleSince() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.inFlight) > 0 || s.main != nil
}

// open makes a session for a holder. Its id cannot be guessed. When there are
// too many, the one that was idle longest makes room: one of the same holder
// before one of another.
func (e *Edge) open(h holder) (*session, error) {
	var random [24]byte
	if _, err := io.ReadFull(e.o.Random, random[:]); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no random numbers for a session: %w", err)
	}
	s := newSession(hex.EncodeToString(random[:]), h, e.o.Clock.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sessions) >= e.o.MaxSessions && !e.makeRoom(h) {
		return nil, core.Errorf(core.CodeBudget, "%d MCP sessions are busy; try again later", len(e.sessions))
	}
	e.sessions[s.id] = s
	return s, nil
}

// makeRoom removes what is too old and, if that is nothing, one idle session.
// It reports whether there is room now. The caller holds the lock.
func (e *Edge) makeRoom(h holder) bool {
	now := e.o.Clock.Now()
	var oldest *session
	var since time.Time
	for _, s := range e.sessions {
		used, busy := s.idleSince()
		switch {
		case busy:
		case now.Sub(used) >= e.o.SessionIdle:
			e.drop(s)
		case oldest == nil, s.holder == h && oldest.holder != h, (s.holder == h) == (oldest.holder == h) && used.Before(since):
			oldest, since = s, used
		}
	}
	if len(e.sessions) >= e.o.MaxSessions && oldest != nil {
		e.drop(oldest)
	}
	return len(e.sessions) < e.o.MaxSessions
}

// find gives a holder's session. There is none for anybody else's id.
func (e *Edge) find(id string, h holder) (*session, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.sessions[id]
	if !ok || s.holder != h {
		return nil, false
	}
	now := e.o.Clock.Now()
	if used, busy := s.idleSince(); !busy && now.Sub(used) >= e.o.SessionIdle {
		e.drop(s)
		return nil, false
	}
	s.touch(now)
	return s, true
}

// remove ends a session.
func (e *Edge) remove(s *session) {
	e.mu.Lock()
	e.drop(s)
	e.mu.Unlock()
}

// drop ends a session and forgets it. The caller holds the lock.
func (e *Edge) drop(s *session) {
	delete(e.sessions, s.id)
	s.end()
	go s.leave() // it may tell servers
}

// enter counts one more call of an owner that may take its time, in whatever
// session, if there may be one.
func (e *Edge) enter(owner string) bool {
	if owner == "" {
		return true // this user: a session's limit is enough
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls[owner] >= e.o.OwnerCalls {
		return false
	}
	e.calls[owner]++
	return true
}

func (e *Edge) vacate(owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls[owner]--; e.calls[owner] <= 0 {
		delete(e.calls, owner)
	}
}

// Sessions counts the sessions over HTTP.
func (e *Edge) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}
