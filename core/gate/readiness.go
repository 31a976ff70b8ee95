package gate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/upstream"
)

// server is one configured server as one state of the settings has it.
type server struct {
	host  *Host
	set   *settings
	name  string
	entry env.ServerEntry
	// refused is that of its keeper.
	refused *upstream.AuthRequired
	peer    *upstream.Peer
	era     upstream.Era
}

func (h *Host) serverOf(s *settings, name string) *server {
	return &server{host: h, set: s, name: name, entry: s.granted.Servers[name]}
}

// keeper keeps what was found out about a server. Its lock is held while the
// server is prepared, so that callers at the same time start it once.
type keeper struct {
	in   *servers
	name string
	// peer is the client that sees the server so; nil: all that have declared
	// nothing.
	peer *upstream.Peer
	era  upstream.Era // that it speaks

	// refused is what a call was answered that its credentials do not suffice
	// for: they are asked for before the next one. It ends with a connection.
	refused atomic.Pointer[upstream.AuthRequired]

	mu     sync.Mutex
	files  *int // of the settings that known was found out with
	known  *readiness
	failed *failure
}

// failure is why a server could not be prepared, where that took a while to find
// out. It stands as long as that took, though not for long: whoever asked at the
// same time, or asks again at once, does not wait for it anew.
type failure struct {
	err   error
	news  int
	at    time.Time
	lasts time.Duration
}

// The least time that a failure takes to be worth keeping, and the longest that
// it stands.
const (
	failureTakes = time.Second
	failureLasts = 5 * time.Second
)

func (f *failure) stands(now time.Time, news int) bool {
	if f == nil || f.news != news {
		return false
	}
	since := now.Sub(f.at)
	return since >= 0 && since < f.lasts
}

// readiness is what a server still asks for or, when that is nothing, how it
// is started and what it offers.
type readiness struct {
	at      time.Time
	news    int // the count of notifications (news) when its tools were listed
	asks    []engine.Ask
	launch  upstream.Launch
	edition upstream.Edition // of it whose tools these are
	tools   map[string]core.Tool
	// definitions are theirs, whole and in the server's order: the very ones that
	// were compared.
	definitions []upstream.Definition
	changed     map[string]engine.Ask // tools that are no longer what was approved
	diff        []api.ToolChange      // the same, and those that are gone
}

// askedAgo is how long a question stands before it is worked out anew: another
// process may have carried out what it asks for.
const askedAgo = 2 * time.Second

// peek returns what is known of a server that can be called, without doing
// anything; not while somebody else is finding out, and not when it would have
// to be started: then what it is started from and what it offers is compared
// first.
func (k *keeper) peek(s *settings) (readiness, bool) {
	if !k.mu.TryLock() {
		return readiness{}, false
	}
	defer k.mu.Unlock()
	if r := k.known; r == nil || k.files != s.files || len(r.asks) > 0 || r.news != k.in.news(k.name) || k.ended(r, k.in.clock.Now()) {
		return readiness{}, false
	}
	return *k.known, true
}

// remoteLasts is how long the tools of an HTTP server count as compared: it may
// have become another one, and has no way to say so.
const remoteLasts = time.Minute

// ended reports whether the process or connection whose tools were compared is
// gone, or may be: the next one may offer others.
func (k *keeper) ended(r *readiness, now time.Time) bool {
	if builtin(k.name) {
		return false
	}
	if since := now.Sub(r.at); r.launch.URL != "" && (since < 0 || since >= remoteLasts) {
		return true
	}
	return !k.in.lives(r.launch, r.edition)
}

// prepare finds out what the server needs and, when that is nothing, starts it
// and lists its tools.
func (k *keeper) prepare(ctx context.Context, s *settings) (readiness, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.in.clock.Now()
	news := k.in.news(k.name)
	if k.files != s.files {
		k.known, k.failed, k.files = nil, nil, s.files
	}
	if k.stillReady(now, news) {
		return *k.known, nil
	}
	if k.failed.stands(now, news) {
		return readiness{}, k.failed.err
	}
	k.known, k.failed = nil, nil
	srv := k.in.at(s, k.name)
	srv.refused, srv.peer, srv.era = k.refused.Load(), k.peer, k.era
	r, err := srv.find(ctx)
	if errors.Is(err, launch.ErrChanged) { // between the check and the start: the question follows
		r, err = srv.find(ctx)
	}
	srv.host.starts.ended(ctx, srv, r, err)
	if err != nil {
		end := k.in.clock.Now()
		if took := end.Sub(now); took >= failureTakes && ctx.Err() == nil && core.CodeOf(err) != core.CodeCancelled {
			k.failed = &failure{err: err, news: news, at: end, lasts: min(took, failureLasts)}
		}
		return readiness{}, err
	}
	r.at, r.news = now, news
	k.known = &r
	return r, nil
}

// stillReady reports whether what is known still holds.
func (k *keeper) stillReady(now time.Time, news int) bool {
	r := k.known
	switch {
	case r == nil || r.news != news:
		return false
	case len(r.asks) > 0:
		since := now.Sub(r.at)
		return since >= 0 && since < askedAgo
	}
	return !k.ended(r, now)
}

// forget makes the next prepare look again.
func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.failed = nil, nil
}

func (s *server) find(ctx context.Context) (readiness, error) {
	if s.name == Builtin {
		return s.list(ctx, upstream.Launch{Name: Builtin, Workspace: s.host.o.Workspace.Dir, ResultBytes: s.set.granted.Limits.ResultBytes})
	}
	if s.name == core.AgentServer {
		return agents(), nil
	}
	resolved, err := s.resolve()
	if err != nil {
		return readiness{}, err
	}
	var r readiness
	if len(resolved.Missing) > 0 {
		r.asks = append(r.asks, s.keysAsk(resolved.Missing))
	}
	launch := upstream.Launch{
		Name: s.name, Workspace: s.host.o.Workspace.Dir, Dir: resolved.Dir,
		URL: resolved.URL, Headers: resolved.Headers, Digest: resolved.Digest, Entry: resolved.Digest, Peer: s.peer,
		Era: s.era, Protocol: s.entry.Protocol,
		Env:    env.ChildEnv(resolved.Env, s.host.o.Environ),
		AtOnce: s.set.granted.Limits.PerServer, ResultBytes: s.set.granted.Limits.ResultBytes,
	}
	if resolved.Type == env.TypeStdio {
		st, ask, err := s.command(ctx, resolved)
		if err != nil {
			return readiness{}, err
		}
		if ask != nil {
			r.asks = append(r.asks, *ask)
		} else if err := st.into(&launch); err != nil {
			return readiness{}, err
		}
	} else {
		ask, err := s.address(resolved)
		if err != nil {
			return readiness{}, err
		}
		if ask != nil {
			r.asks = append(r.asks, *ask)
		}
		if s.host.o.OAuth != nil && !declaresAuthorization(resolved.Headers) {
			launch.Auth = s.host.o.OAuth.Authorizer(oauthServer(resolved))
		}
	}
	if len(r.asks) > 0 {
		return r, nil
	}
	return s.reach(ctx, launch, oauthServer(resolved))
}

// agents is the built-in server of agents.
func agents() readiness {
	r := readiness{tools: map[string]core.Tool{}}
	for _, t := range agent.Tools() {
		r.tools[t.Name] = t
	}
	return r
}

// reach starts the server and lists its tools, or asks a person to connect it.
func (s *server) reach(ctx context.Context, launch upstream.Launch, srv oauth.Server) (readiness, error) {
	auth := s.refused
	if launch.Auth == nil {
		return s.list(ctx, launch)
	}
	if auth == nil {
		listed, err := s.list(ctx, launch)
		if auth = authRequired(err); auth == nil {
			return listed, err
		}
		if err := s.host.connections.refreshFailure(launch, auth); err != nil {
			return readiness{}, err
		}
	}
	srv.Metadata, srv.Scope = auth.Metadata, auth.Scope
	ask, err := s.host.connections.ask(ctx, srv)
	if err != nil {
		return readiness{}, err
	}
	return readiness{asks: []engine.Ask{ask}}, nil
}

// authRequired is what a server said that refused a request for lack of
// credentials, nil for any other error.
func authRequired(err error) *upstream.AuthRequired {
	var auth *upstream.AuthRequired
	if core.CodeOf(err) != core.CodeAuth || !errors.As(err, &auth) {
		return nil
	}
	return auth
}

// declaresAuthorization reports whether an entry brings its own credentials.
func declaresAuthorization(headers map[string]string) bool {
	for name := range headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// list starts the server and compares its tools with those that were approved.
func (s *server) list(ctx context.Context, launch upstream.Launch) (readiness, error) {
	listed, edition, err := s.host.o.Upstream.Definitions(ctx, launch)
	if err != nil {
		return readiness{}, err
	}
	r := readiness{launch: launch, edition: edition, tools: make(map[string]core.Tool, len(listed))}
	var tools []core.Tool
	for _, d := range listed {
		d.Tool.Server = s.name
		if s.givesAway(d.Tool) {
			continue
		}
		tools = append(tools, d.Tool)
		r.tools[d.Tool.Name] = d.Tool
		r.definitions = append(r.definitions, d)
	}
	if s.name == Builtin {
		return r, nil
	}
	r.changed, r.diff, err = s.compareTools(tools)
	return r, err
}

// givesAway reports whether the name of a tool holds the value of a key: it
// would stand in pml.lock and wherever the tool is named, so it is not offered.
func (s *server) givesAway(t core.Tool) bool {
	if !s.set.redact.Names(t.Name) {
		return false
	}
	s.host.o.Logger.Warn("a tool whose name holds the value of a key is left out", "server", s.name)
	return true
}

// approvalKey names this server of this workspace in the machine's records.
func (s *server) approvalKey() string { return s.host.o.Workspace.Dir + "\x00" + s.name }

var zeroTime time.Time

// The kinds of things that are approved on a machine.
const (
	approvedTree    = "tree"
	approvedCommand = "command"
	approvedFile    = "file"
	approvedTool    = "tool"
)

func (s *server) toolKey(tool string) string { return s.approvalKey() + "\x00" + tool }
