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

// idleSince is when the client has sent something last; over: too long ago; busy:
// it waits for an answer, or listens and has not been silent for too long.
func (s *session) idleSince(now time.Time, limit time.Duration) (used time.Time, over, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over = len(s.inFlight) == 0 && now.Sub(s.used) >= limit
	return s.used, over, len(s.inFlight) > 0 || s.main != nil && !over
}

// open makes a session for a holder. Its id cannot be guessed. When its owner, or
// all together, have too many, the owner's own that was idle longest makes room:
// never one of somebody else that may still be used.
func (e *Edge) open(h holder) (*session, error) {
	var random [24]byte
	if _, err := io.ReadFull(e.o.Random, random[:]); err != nil {
		return nil, core.Errorf(core.CodeInternal, "no random numbers for a session: %w", err)
	}
	s := newSession(hex.EncodeToString(random[:]), h, e.o.Clock.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hasRoom(h.owner) && !e.makeRoom(h.owner) {
		return nil, core.Errorf(core.CodeBudget, "too many MCP sessions are in use (%d, %d of this caller); try again later", len(e.sessions), e.owned[h.owner])
	}
	e.sessions[s.id] = s
	e.owned[h.owner]++
	if e.sweeper == nil {
		e.sweeper = time.AfterFunc(e.sweepEvery(), e.sweep)
	}
	return s, nil
}

// hasRoom reports whether an owner may open one more session. The caller holds
// the lock.
func (e *Edge) hasRoom(owner string) bool {
	return e.owned[owner] < e.o.OwnerSessions && len(e.sessions) < e.o.MaxSessions
}

// makeRoom removes what is too old and, if that is nothing, one idle session of
// the owner. It reports whether there is room now. The caller holds the lock.
func (e *Edge) makeRoom(owner string) bool {
	e.dropOld()
	if e.hasRoom(owner) {
		return true
	}
	now := e.o.Clock.Now()
	var oldest *session
	var since time.Time
	for _, s := range e.sessions {
		if s.holder.owner != owner {
			continue
		}
		if used, _, busy := s.idleSince(now, e.o.SessionIdle); !busy && (oldest == nil || used.Before(since)) {
			oldest, since = s, used
		}
	}
	if oldest != nil {
		e.drop(oldest)
	}
	return e.hasRoom(owner)
}

// dropOld ends the sessions that nobody uses any more. The caller holds the lock.
func (e *Edge) dropOld() {
	now := e.o.Clock.Now()
	for _, s := range e.sessions {
		if _, over, _ := s.idleSince(now, e.o.SessionIdle); over {
			e.drop(s)
		}
	}
}

// sweepEvery is the time between two looks for sessions that nobody uses.
func (e *Edge) sweepEvery() time.Duration { return max(e.o.SessionIdle/8, time.Millisecond) }

// sweep ends what nobody uses, and comes again while there are sessions.
func (e *Edge) sweep() {
	defer core.Recover(e.o.Log, "sessions that nobody uses were ended", nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropOld()
	if e.sweeper != nil {
		e.sweeper.Reset(e.sweepEvery())
	}
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
	if _, over, _ := s.idleSince(now, e.o.SessionIdle); over {
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
	if e.sessions[s.id] != s {
		return
	}
	delete(e.sessions, s.id)
	if e.owned[s.holder.owner]--; e.owned[s.holder.owner] <= 0 {
		delete(e.owned, s.holder.owner)
	}
	if len(e.sessions) == 0 && e.sweeper != nil {
		e.sweeper.Stop()
		e.sweeper = nil
	}
	s.end()
	e.beside("it was told that a client has gone", s.leave) // it may tell servers
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
