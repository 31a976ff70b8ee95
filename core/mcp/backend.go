package mcp

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Backend is what the tools of this package do their work with, in one scope:
// ids of runs out of it are core.CodeNotFound. core/service's Service is one, and
// core/route's Backend.
type Backend interface {
	api.Runs
	api.Workflows
	api.Approvals
	api.Catalog
	api.FlowReads
}

// Holder is a Backend that waits for people with less memory than Execute does,
// whose HoldApprovals is to the same end: Hold goes on where an Execute without
// it has returned with approvals pending. The result is never nil.
type Holder interface {
	Hold(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error)
}

// Hearer is a Backend that knows beforehand whether a person's answer to a
// host's question can decide an approval. Where it cannot, because only
// a terminal can (approvals.decider without trust_host, approvals.pin), nobody
// is asked. Without it the question is put, and the refusal of the decision is
// final for the session.
type Hearer interface {
	HostMayDecide(ctx context.Context, a core.Approval) bool
}
