package app

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core/api"
)

// LocalServer is a server seen from outside of it.
type LocalServer interface {
	// Status asks the server what it does; nil when there is none.
	Status(ctx context.Context) (*ServerState, error)
	// Stop asks it to stop, waits until it is gone, and returns what it said of
	// itself before; nil when there was none.
	Stop(ctx context.Context) (*ServerState, error)
	ServerKeys
}

// ServerKeys are the keys with which others call a server over TCP.
type ServerKeys interface {
	// AddKey makes a key and returns its token, which is kept nowhere.
	AddKey(ctx context.Context, name string) (token string, err error)
	Keys(ctx context.Context) ([]ServerKey, error)
	RemoveKey(ctx context.Context, name string) error
}

// ServerState is what a server says of itself, and what to know about it.
type ServerState struct {
	api.ServerStatus
	Warning string `json:"warning,omitempty"`
}

// ServerKey is a key without its token.
type ServerKey struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// ServeOptions are the choices of a server.
type ServeOptions struct {
	// Home and Log are as in OpenOptions.
	Home, Log string
	// Socket is where it listens for this user, TCP an address for others, who
	// need a key. Empty: the usual socket, no address.
	Socket, TCP string
	// Store is the URL of a PostgreSQL database; empty for this home's own.
	Store string
	// Engine is the address of an engine that keeps the runs, temporal://HOST:PORT/NAMESPACE; empty: none.
	Engine string
	// Idle is how long it stays with nothing to do; 0: until it is stopped.
	Idle time.Duration
	// Hosts and Origins are names and origins that requests over TCP may carry.
	Hosts, Origins []string
	// TLSCert and TLSKey are files in PEM, for TCP; both or none.
	TLSCert, TLSKey string
	// PlainPages shows the pages to browsers on other machines without TLS.
	PlainPages bool
	// Metrics are the names of keys that may read /metrics over TCP.
	Metrics []string
	// JSONLog writes the log as JSON.
	JSONLog bool
	// ReadyFD is the descriptor of a starter that waits for it; 0 by hand.
	ReadyFD int
	// Ready is called with the addresses, once the server listens.
	Ready func(addresses []string)
}

// EngineOptions are the choices of a look at an engine.
type EngineOptions struct {
	// Home and Log are as in OpenOptions.
	Home, Log string
	// Address is as Engine of ServeOptions.
	Address string
	// Prepare makes there what is missing before.
	Prepare bool
}
