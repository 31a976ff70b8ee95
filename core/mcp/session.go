package mcp

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
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

	served jsonrpc.Served // requests of the client
	asked  jsonrpc.Calls  // questions to it
	last   atomic.Int64   // of their ids
	// unheard is set once it is known that no answer of this client decides.
	unheard atomic.Bool
	subs    subscriptions

	mu      sync.Mutex
	info    mcp.Implementation
	can     mcp.ClientCapabilities
	asks    abilities
	logs    int // the level that was set, as in levels; 0: none was
	version string
	used    time.Time
	main    *stream                // what belongs to no call; nil: nobody listens
	peer    *peer                  // as upstream servers see the client; nil: not yet
	heard   map[core.ID]int64      // how much of the log of each run was sent
	filter  mcp.SubscriptionFilter // of one that listens in a modern revision
	gone    bool
	over    chan struct{} // closed when it is gone
	shook   chan struct{} // closed when the client has shaken hands

	introduced func(core.Client) // called once; nil: nobody wants to know
	introduces sync.Once
}

var (
	_ server.ClientSession         = (*session)(nil)
	_ server.SessionWithClientInfo = (*session)(nil)
)

func newSession(id string, h holder, now time.Time) *session {
	return &session{
		id: id, holder: h, used: now, out: make(chan mcp.JSONRPCNotification, 16),
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

// SetProtocolVersion takes the revision that was agreed on.
func (s *session) SetProtocolVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// initialized takes what the client has declared in the handshake.
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

// introduce passes on who the client is, the first time that it says so.
func (s *session) introduce(c core.Client) {
	if s.introduced != nil && c != (core.Client{}) {
		s.introduces.Do(func() { s.introduced(c) })
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
)

// end cancels all that is in flight.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		close(s.over)
	}
	s.served.End(errEnded)
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
	working := s.served.Len() > 0
	over = !working && now.Sub(s.used) >= limit
	return s.used, over, working || s.main != nil && !over
}
