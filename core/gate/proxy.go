package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/jsonrpc"
	"github.com/casys-ai/pml/core/upstream"
)

// Guest is the client for which the calls of a run are made, where there is
// one: servers may ask it.
type Guest struct {
	Peer *upstream.Peer // nil: it cannot be asked
	Meta json.RawMessage
	// Progress is called with what servers say of their progress, as it arrives; nil:
	// nobody wants to know.
	Progress func(message string, done, total float64)
	// Folder is where an agent's host works that asks about a call of its own.
	Folder string
}

// Attend says for whom the calls of a run are made.
func (h *Host) Attend(run core.ID, g *Guest) { h.clients.attend(run, g) }

// Leave takes back what Attend has said.
func (h *Host) Leave(run core.ID) { h.clients.leave(run) }

// PeerGone forgets a client that has left, and what was known of servers as it
// sees them.
func (h *Host) PeerGone(peer string) {
	h.clients.peerGone(peer)
	h.servers.peerGone(peer)
}

// serverFor is the server as whoever a call is made for sees it.
func (h *Host) serverFor(name string, call engine.Call) *keeper {
	if g := h.clients.of(call.RunID); g != nil {
		return h.servers.ofPeer(name, g.Peer)
	}
	return h.servers.of(name)
}

// launchFor is how a server is reached for a client. One that has declared
// nothing shares the connection, and still gets the server's notifications.
func launchFor(r readiness, peer *upstream.Peer) upstream.Launch {
	l := r.launch
	if peer != nil {
		l.Peer = peer
	}
	return l
}

func declares(peer *upstream.Peer) bool { return peer != nil && Declares(peer.Capabilities) }

// Declares reports whether a client has declared anything that servers ask by.
func Declares(capabilities json.RawMessage) bool {
	switch strings.TrimSpace(string(capabilities)) {
	case "", "{}", "null":
		return false
	}
	return true
}

// offeredCall reports whether the result of a call is wanted as its server sends
// it.
func offeredCall(call engine.Call) bool { return strings.HasPrefix(call.ID, core.OfferedTask) }

// Raw is how a call ended whose result passes as the server sent it.
type Raw struct {
	Result json.RawMessage
	// Failed is what the tool said of its failure, where Result says that it has
	// failed (isError).
	Failed *core.Error
}

// Through makes a call that has passed the gates, as Call does, and returns the
// server's own result. An error of the server that is no result is an
// *api.PeerError; engine.NotMadeError takes the call to its gates again.
func (h *Host) Through(ctx context.Context, call engine.Call, progress func(string)) (Raw, error) {
	s, err := h.reader.recent()
	if err != nil {
		return Raw{}, core.AsError(err).WithNotMade()
	}
	e := h.make(ctx, s, call, progress)
	if len(e.Raw) > 0 {
		raw := Raw{Result: s.redact.JSON(e.Raw)}
		if e.err != nil {
			raw.Failed = core.AsError(e.err)
		}
		return raw, nil
	}
	if rpc := s.passed(e.err); rpc != nil {
		return Raw{}, rpc
	}
	return Raw{}, e.err
}

// passed makes an error of a server one that passes to a client as it is, less
// the values of keys.
func (s *settings) passed(err error) *api.PeerError {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return nil
	}
	return &api.PeerError{Code: rpc.Code, Message: s.redact.String(rpc.Message), Data: s.redact.JSON(rpc.Data)}
}

// Reached is a server that runs, as a client sees it.
type Reached struct {
	// Asks are what a person must decide before it may be started; then nothing
	// else is known.
	Asks []engine.Ask
	// Tools are all of its tools in the order in which it lists them.
	Tools        []ReachedTool
	Capabilities json.RawMessage
}

// ReachedTool is a tool with its definition as its server lists it.
type ReachedTool struct {
	Name       string          `json:"name"`
	Definition json.RawMessage `json:"definition"`
}

// Reach starts a server, if it may be, and says what it has. The definition of
// a tool that is not what was approved is withheld until a person has looked at
// it: its words are what an agent acts on.
func (h *Host) Reach(ctx context.Context, name string, peer *upstream.Peer) (Reached, error) {
	s, err := h.reader.recent()
	if err != nil {
		return Reached{}, err
	}
	if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
		return Reached{}, deny
	}
	ready, err := h.servers.ofPeer(name, peer).prepare(ctx, s)
	if err != nil {
		return Reached{}, s.clean(err)
	}
	if len(ready.asks) > 0 {
		return Reached{Asks: ready.asks}, nil
	}
	if ready, err = h.flows.listed(ctx, s, name, ready); err != nil {
		return Reached{}, s.clean(err)
	}
	launch := launchFor(ready, peer)
	var out Reached
	for _, d := range ready.definitions {
		tool, ok := ready.tools[d.Tool.Name]
		if !ok { // a flow hides it
			continue
		}
		def := s.redact.JSON(relisted(d, tool))
		if _, changed := ready.changed[d.Tool.Name]; changed {
			def = withheld(d.Tool)
		}
		out.Tools = append(out.Tools, ReachedTool{Name: d.Tool.Name, Definition: def})
	}
	caps, err := h.o.Upstream.Capabilities(ctx, launch)
	if err != nil {
		return Reached{}, s.clean(err)
	}
	out.Capabilities = caps.Raw
	return out, nil
}

// withheld stands for the definition of a tool that nobody has looked at.
func withheld(t core.Tool) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"name":        t.Name,
		"description": "The definition of this tool is new, or has changed, since its server was approved. A call asks a person to look at it first.",
		"inputSchema": map[string]any{"type": "object"},
	})
	if err != nil {
		return nil
	}
	return raw
}

// Forward sends a request about resources, prompts, completions or logs to a
// server of which they are offered. An error of the server itself is an
// *api.PeerError.
func (h *Host) Forward(ctx context.Context, name string, peer *upstream.Peer, method string, params json.RawMessage) (json.RawMessage, error) {
	e, err := h.Exposure()
	if err != nil {
		return nil, err
	}
	s := e.set
	if deny := e.mayForward(name, method); deny != nil {
		return nil, deny
	}
	ready, err := h.servers.ofPeer(name, peer).prepare(ctx, s)
	if err != nil {
		return nil, s.clean(err)
	}
	if len(ready.asks) > 0 {
		return nil, core.Errorf(core.CodePermissionDenied, "the server %s cannot be used now: %s", name, ready.asks[0].Description).WithNext("pml", "servers", "check", name)
	}
	raw, err := h.o.Upstream.Forward(ctx, launchFor(ready, peer), method, params)
	if err == nil {
		return s.redact.JSON(raw), nil
	}
	if rpc := s.passed(err); rpc != nil {
		return nil, rpc
	}
	return nil, s.clean(err)
}

// mayForward refuses a request about what is not offered of a server. Only
// completions may be about either, and logs are the server's own.
func (e *Exposure) mayForward(name, method string) *core.Error {
	resources, prompts := e.reads(name, ReadsResources), e.reads(name, GetsPrompts)
	switch {
	case strings.HasPrefix(method, "resources/"):
		return resources
	case strings.HasPrefix(method, "prompts/"):
		return prompts
	case resources != nil && prompts != nil && !slices.Contains([]string{"logging/setLevel"}, method):
		return resources
	}
	return nil
}

// Lists reports whether anything of a server is offered, whatever it has.
func (e *Exposure) Lists(name string) bool { return slices.Contains(e.Names(), name) }
