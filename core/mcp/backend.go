package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Backend is what the tools of this package do their work with, in one scope:
// ids of runs out of it are core.CodeNotFound. core/local's Client is one, and
// core/route's.
type Backend interface {
	Runner
	Planner
	Reader
	Catalog
}

// Runner starts and moves runs. A decision that only a person may take is
// refused with core.CodeAwaitingHuman when its Actor came by MCP.
type Runner interface {
	Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error)
	Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error)
	Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error)
}

// Planner adds tasks to DAGs: given ones, or suggested ones for a requirement.
type Planner interface {
	Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error)
	ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error)
}

// Reader reads what is kept.
type Reader interface {
	Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error)
	Workflow(ctx context.Context, id core.ID) (core.Workflow, error)
	// Approvals are those that wait; with all also those that do not any more.
	Approvals(ctx context.Context, all bool) ([]core.Approval, error)
	// Events calls f for the events of a run in order; with follow it waits for
	// more until the context ends.
	Events(ctx context.Context, id core.ID, since int64, follow bool, f func(core.Event) error) error
	// Resolve accepts an id, a prefix of 4 or more, or @latest.
	Resolve(ctx context.Context, text string) (id, approval core.ID, err error)
}

// Catalog lists the tools that runs can call.
type Catalog interface {
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
}

// Holder is a Backend that waits for people with less memory than Execute does,
// whose HoldApprovals is to the same end: Hold goes on where an Execute without
// it has returned with approvals pending. The result is never nil.
type Holder interface {
	Hold(ctx context.Context, id core.ID, limit time.Duration) (*api.Result, error)
}

// Hearer is a Backend that knows beforehand whether a person's answer to a
// host's question can decide what a run waits for. Where it cannot, because only
// a terminal can (approvals.decider without trust_host, approvals.pin), nobody
// is asked. Without it the question is put, and the refusal of the decision is
// final for the session.
type Hearer interface {
	HearsHosts(ctx context.Context, id core.ID) bool
}

// Auditor is a Backend that keeps what was tried and refused: a requestState
// that pml has not given out, or not for this call, or that was used before. run
// is empty where none is known for certain.
type Auditor interface {
	Refused(ctx context.Context, run core.ID, reason string) error
}
