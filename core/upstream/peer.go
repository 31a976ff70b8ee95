package upstream

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/casys-ai/pml/core"
)

// Peer is a client on whose behalf a server is called, as far as the server
// may ask and tell it something.
type Peer struct {
	// ID names the peer. One that has declared capabilities has a connection of
	// its own to each server.
	ID string
	// Capabilities are declared to the server in the handshake: sampling,
	// elicitation, roots, as the peer declared them; empty or {} for none.
	Capabilities json.RawMessage
	// Ask passes a request of the server on and returns the result as it came.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify passes a notification of the server on, and returns at once.
	Notify func(method string, params json.RawMessage)
}

// RPCError is an error of JSON-RPC as a server, or a Peer, has sent it.
type RPCError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

// Error implements error.
func (e *RPCError) Error() string {
	return fmt.Sprintf("error %d: %s", e.Code, core.Visible(e.Message, 2000, true))
}

// Forward sends a request of a client to a server, starting it when it must, and
// returns the result as the server sent it. An error of the server itself is an
// *RPCError; others are as for Call.
func (m *Manager) Forward(context.Context, Launch, string, json.RawMessage) (json.RawMessage, error) {
	return nil, core.Errorf(core.CodeInternal, "core/upstream: Forward is not there yet")
}

// Gone stops the connections that a peer had of its own.
func (m *Manager) Gone(string) {}

// Capabilities are what a server said of itself in the handshake.
type Capabilities struct {
	// Raw is its capabilities as it sent them; {} for a server inside this binary.
	Raw          json.RawMessage
	Instructions string // foreign text
	Protocol     string // the revision that was agreed on
}

// Capabilities tells what a server said of itself, starting it when it must.
func (m *Manager) Capabilities(context.Context, Launch) (Capabilities, error) {
	return Capabilities{}, core.Errorf(core.CodeInternal, "core/upstream: Capabilities is not there yet")
}

// Definition is a tool with its definition as its server lists it, whole.
type Definition struct {
	Tool core.Tool
	Raw  json.RawMessage
}

// Definitions is List with the whole definitions.
func (m *Manager) Definitions(context.Context, Launch) ([]Definition, Edition, error) {
	return nil, 0, core.Errorf(core.CodeInternal, "core/upstream: Definitions is not there yet")
}
