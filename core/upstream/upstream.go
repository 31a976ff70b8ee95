// Package upstream starts, calls and stops MCP servers.
//
// A Manager keeps at most one connection for each configured server of a
// workspace: a child process that speaks over its standard streams, a
// streamable HTTP endpoint, or a server inside this binary. It is started on
// first use, shared by concurrent callers, stopped when idle, and started
// again, with a growing delay, after it died.
//
// What comes from a server is foreign: lines that are not JSON-RPC are
// skipped, messages and results are bounded, and a child sees only the
// environment that its Launch names.
package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/casys-ai/pml/core"
)

// Launch says how one configured server is run. With a Command it is a child
// process, with a URL a streamable HTTP endpoint, with neither the server of
// that name in Options.Local.
type Launch struct {
	// Name is the server's name in the configuration; Workspace is the root of
	// the workspace that configured it.
	Name, Workspace string
	Command         string
	Args            []string
	// Env is the child's complete environment, as KEY=value. Nothing else is
	// passed on: an empty Env is an empty environment.
	Env []string
	// Dir is the child's working directory; empty means Workspace.
	Dir     string
	URL     string
	Headers map[string]string
	// Auth, when set, gives the Authorization header of each request to URL. It
	// is not covered by Digest.
	Auth Authorizer
	// Verify, when set, is called before each start of a child process. With
	// an error nothing runs, and the error is that of the call.
	Verify func() error
	// Peer, when set, is the client that the connection works for: the server
	// may ask it. Peers with capabilities have connections of their own.
	Peer *Peer
	// Era is the one that the server is spoken to in where it has both; Protocol,
	// when set, is the one revision that is spoken, whatever it has.
	Era      Era
	Protocol string
	// Digest covers the configured entry and its environment values. Another
	// digest is another process; the one with the old digest is stopped as
	// soon as its calls are done.
	Digest string
	// Entry covers the configured entry alone: [Health] tells of which entry it is.
	Entry string
	// AtOnce bounds the calls that run at once, others wait; 0: Limits.PerServer.
	AtOnce int
	// ResultBytes bounds one result; 0: Limits.ResultBytes. A connection reads what
	// it was started with.
	ResultBytes int64
}

// Authorizer gives the Authorization header of the requests to one server. It
// is safe for concurrent use.
type Authorizer interface {
	// Header returns the header's value; empty sends none.
	Header(ctx context.Context) (string, error)
	// Rejected takes back a header to which the server answered 401 and reports
	// whether another one can be had: then the request is sent once more.
	Rejected(ctx context.Context, header string) bool
}

// AuthRequired is wrapped by a core.CodeAuth error of a server that answers
// 401: what it said in WWW-Authenticate.
type AuthRequired struct {
	Server string
	// Metadata is the URL of its protected resource metadata (RFC 9728), Scope
	// the scopes it asks for; both may be empty.
	Metadata, Scope string
}

// Error implements error.
func (e *AuthRequired) Error() string { return "server " + e.Server + " asks for authorization" }

// Health is what is known of one server's process or connection.
type Health struct {
	Name, Workspace string
	State           string // running, starting, stopped, failing
	PID             int
	Start           time.Duration // from its start to the end of the handshake
	Protocol        string
	Server          string // its own name and version
	Failures        int    // in a row
	Entry           string // Launch.Entry of the newest start
	LastError       string
	RetryAt         time.Time // zero: at once
	Stderr          string    // its last lines, behind its first error if it has ended; safe to show
}

// Limits bound what servers may take. A zero field means its default.
type Limits struct {
	Start       time.Duration // until the handshake is complete; 30 s
	Call        time.Duration // one call without a sign of life, when the request names no time-out; 60 s
	Idle        time.Duration // without a call until it is stopped; 5 min, negative: never
	StopGrace   time.Duration // between closing stdin, TERM and KILL; 2 s
	ResultBytes int           // one result, as on the wire; 16 MiB
	PerServer   int           // calls at once to one server, others wait; 32
	StderrBytes int           // kept of a child's stderr, the newest; 64 KiB
}

func (l Limits) withDefaults() Limits {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&l.Start, 30*time.Second)
	def(&l.Call, time.Minute)
	def(&l.Idle, 5*time.Minute)
	def(&l.StopGrace, 2*time.Second)
	num(&l.ResultBytes, 16<<20)
	num(&l.PerServer, 32)
	num(&l.StderrBytes, 64<<10)
	return l
}

// Options configure a Manager.
type Options struct {
	Clock core.Clock
	// Logger gets what servers say beside the protocol; nil discards it.
	Logger *slog.Logger
	Limits Limits
	// ClientName and ClientVersion are sent to servers; empty means "pml".
	ClientName, ClientVersion string
	// ToolsChanged is called when a server has announced other tools, or is another
	// process than before; it must return at once. Tools tells the new ones. May
	// be nil.
	ToolsChanged func(name, workspace string)
	// Started is called, in a goroutine of its own, when a process of a server has been
	// started; it returns what is called when that process has ended. May be nil.
	Started func(name, workspace string, pid int) (ended func())
	// Local are the servers inside this binary, by name.
	Local map[string]LocalServer
}

// LocalServer is a server inside this binary. Its methods are called
// concurrently.
type LocalServer interface {
	Tools() []core.Tool
	// Call runs a tool in the workspace whose root is dir and returns its
	// value. An error that is no *core.Error counts as core.CodeToolFailed.
	Call(ctx context.Context, dir, tool string, args json.RawMessage) (json.RawMessage, error)
}

// Request is one call of a tool.
type Request struct {
	Launch Launch
	Tool   string // without the server's name
	// Edition, when set, binds the call to the connection whose tools were
	// listed: no other one is started or used, and without it the error wraps
	// ErrOtherEdition. Servers inside this binary have none.
	Edition Edition
	// Args is a JSON object; empty means {}.
	Args json.RawMessage
	// Meta is the _meta of the request, a JSON object without a token for
	// progress; may be empty.
	Meta json.RawMessage
	// Owner is whose call it is, where servers work for several.
	Owner string
	// Timeout is the longest time without an answer, progress, or a question to
	// the client that is open; Total bounds all of the call. The start of the
	// server and the wait for a free place do not count. Zero means Limits.Call for
	// Timeout and no bound for Total; a Timeout below zero is none.
	Timeout, Total time.Duration
	// Alive, when set, is called for each such sign, and now and then while a question
	// is open. It must return at once.
	Alive func()
	// Queued, when set, is called when the call has to wait for a free place.
	Queued func()
	// Before, when set, is called right before the call is sent; with an error of it
	// the call is not made.
	Before func(ctx context.Context) error
	// Progress, when set, is called with the server's notifications of progress; total
	// is 0 when the server does not say it. It runs on the connection's reader
	// and must return at once. It is never called after Call has returned.
	Progress func(message string, done, total float64)
}

// Response is the outcome of a call. When the tool itself said that it failed,
// Raw is set beside the error.
type Response struct {
	// Value is what a script gets: see NormalizeResult.
	Value json.RawMessage
	// Raw is the MCP result as the server sent it; for a local server it is
	// the same as Value.
	Raw json.RawMessage
}
