// Package server is the HTTP edge of pml: a JSON interface under /api/v1 with
// server-sent events, an OpenAPI document made from the same types, and who may
// call it. It runs nothing itself: a Backend does.
package server

import (
	"context"

	"github.com/casys-ai/pml/core/api"
)

// Half gives the part of the server half that a scope may use. core/service's
// Client is what stands behind it.
type Half func(scope api.Scope) (Backend, error)

// Backend is the server half in one scope: ids of other owners' runs are
// core.CodeNotFound.
type Backend interface {
	api.Runs
	Journal
	api.Approvals
	api.Catalog
	api.Audit
	api.Halting
	api.FlowReads
}

// Journal reads what is kept of runs.
type Journal interface {
	api.Workflows
	api.Details
	api.Traces
}

// PairKeeper is a Backend that puts into the audit log that its caller, a browser, was
// made a device.
type PairKeeper interface {
	Paired(ctx context.Context, device string) error
}

// MCPKeeper is a Backend that runs MCP servers for the workspace of its caller.
type MCPKeeper interface {
	// OwnServers are those of the workspace, with the health of the processes that this pml runs.
	OwnServers(ctx context.Context) ([]api.ServerInfo, error)
	// RestartOwn ends the process of one of them, starts it anew, and says how it stands.
	RestartOwn(ctx context.Context, name string) ([]api.ServerInfo, error)
}

// PinKeeper is a Backend whose decisions can need a PIN.
type PinKeeper interface {
	api.Pin
	AdoptPin(ctx context.Context, old string, atTerminal bool) error
}
