package upstream

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// Peer is a client on whose behalf a server is called, as far as the server
// may ask and tell it something.
type Peer struct {
	// ID names the peer. One that has declared capabilities has a connection of
	// its own to each server.
	ID string
	// Owner is whose client it is, where servers work for several: what a server
	// logs of the calls of one is not told to another.
	Owner string
	// Era is the one that the client speaks.
	Era Era
	// Capabilities are declared to the server in the handshake: sampling,
	// elicitation, roots, as the peer declared them; empty or {} for none.
	Capabilities json.RawMessage
	// Ask passes a request of the server on and returns the result as it came;
	// params is nil where there are none. A *jsonrpc.Error reaches the server as it
	// is. ctx ends when the server takes the request back and when the calls are
	// over that it may belong to; what is returned later is dropped.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// AskAll, when set, passes all questions of one round on, under the server's
	// keys, and returns the answers that there are, for the server to judge.
	AskAll func(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)
	// Notify passes a notification of the server on, and returns at once: of one
	// connection in its order, and before the result of the call that it comes
	// before. What a server sends to all comes here, too, if the peer has no connection of its own.
	Notify func(method string, params json.RawMessage)
}

// Question is one of a server to a client; Params is nil where there are none.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// worded is an error of a server in words that say more than its own.
type worded struct {
	text string
	sent *jsonrpc.Error
}

// Error implements error.
func (w *worded) Error() string { return w.text }

// Unwrap returns the error as the server sent it.
func (w *worded) Unwrap() error { return w.sent }

// as is an error that wraps the server's.
func as(err error, rpc *jsonrpc.Error) error {
	return core.Errorf(core.CodeOf(err), "%w", &worded{err.Error(), rpc})
}

// declared are the capabilities that servers ask by, as the peer declared them;
// none for no peer.
func (p *Peer) declared() map[string]json.RawMessage {
	if p == nil || len(p.Capabilities) <= len("{}") {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(p.Capabilities, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(name string, value json.RawMessage) bool {
		return name != "sampling" && name != "elicitation" && name != "roots" || orNone(value) == nil
	})
	return all
}

// Gone stops the connections that a peer had of its own, and forgets it.
func (m *Manager) Gone(peer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.servers {
		switch {
		case k.own && k.peer == peer:
			m.remove(s)
		case !k.own && m.unwatch(s, peer):
			m.rest(s)
		}
	}
	for of, all := range m.listeners {
		if delete(all, peer); len(all) == 0 {
			delete(m.listeners, of)
		}
	}
	for of := range m.records {
		if of.own && of.peer == peer {
			delete(m.records, of)
		}
	}
	for of := range m.levels {
		if of.own && of.peer == peer {
			delete(m.levels, of)
		}
	}
}

// Capabilities are what a server said of itself in the handshake.
type Capabilities struct {
	// Raw is its capabilities as it sent them; {} for a server inside this binary.
	Raw          json.RawMessage
	Instructions string // foreign text
	Protocol     string // the revision that was agreed on

	has map[string]json.RawMessage
}

// Capabilities tells what a server said of itself, starting it when it must.
// Errors are those of Tools.
func (m *Manager) Capabilities(ctx context.Context, l Launch) (Capabilities, error) {
	if _, ok := m.local(l); ok {
		return Capabilities{Raw: json.RawMessage("{}")}, nil
	}
	s, c, err := m.acquire(ctx, l, 0)
	if err != nil {
		return Capabilities{}, err
	}
	defer m.release(s)
	return c.capabilities, nil
}

func capabilitiesOf(greeting json.RawMessage, protocol string) Capabilities {
	var said struct {
		Capabilities json.RawMessage `json:"capabilities"`
		Instructions string          `json:"instructions"`
	}
	_ = json.Unmarshal(greeting, &said) // the library has understood it
	c := Capabilities{Raw: said.Capabilities, Instructions: said.Instructions, Protocol: protocol}
	if json.Unmarshal(said.Capabilities, &c.has) != nil || c.has == nil {
		c.Raw = json.RawMessage("{}")
	}
	return c
}

// flag reports whether a capability has a member that is true.
func (c Capabilities) flag(capability, member string) bool {
	var flags map[string]json.RawMessage
	return json.Unmarshal(c.has[capability], &flags) == nil && string(flags[member]) == "true"
}

// announces reports whether the server tells of anything unasked.
func (c Capabilities) announces() bool {
	return c.flag("tools", "listChanged") || c.flag("prompts", "listChanged") ||
		c.flag("resources", "listChanged") || c.flag("resources", "subscribe")
}

// Definition is a tool with its definition as its server lists it, whole.
type Definition struct {
	Tool core.Tool
	Raw  json.RawMessage
}

// Definitions is List with the whole definitions.
func (m *Manager) Definitions(ctx context.Context, l Launch) ([]Definition, Edition, error) {
	if local, ok := m.local(l); ok {
		defs, err := local.definitions(l.Name)
		return defs, 0, err
	}
	tools, edition, err := m.list(ctx, l)
	if err != nil {
		return nil, edition, err
	}
	return tools.definitions, edition, nil
}

// definitions are the tools of a server inside this binary, as it would list
// them over MCP.
func (l local) definitions(name string) ([]Definition, error) {
	type annotations struct {
		ReadOnly    *bool `json:"readOnlyHint,omitempty"`
		Destructive *bool `json:"destructiveHint,omitempty"`
		Idempotent  *bool `json:"idempotentHint,omitempty"`
		OpenWorld   *bool `json:"openWorldHint,omitempty"`
	}
	var out []Definition
	for _, t := range l.tools(name) {
		in := t.InputSchema
		if in == nil {
			in = json.RawMessage(`{"type":"object"}`)
		}
		raw, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Title       string          `json:"title,omitempty"`
			Description string          `json:"description,omitempty"`
			In          json.RawMessage `json:"inputSchema"`
			Out         json.RawMessage `json:"outputSchema,omitempty"`
			Annotations annotations     `json:"annotations"`
		}{t.Name, t.Title, t.Description, in, t.OutputSchema, annotations(t.Annotations)})
		if err != nil {
			return nil, core.Errorf(core.CodeInternal, "the definition of %s: %w", t.ID(), err)
		}
		out = append(out, Definition{t, raw})
	}
	return out, nil
}
