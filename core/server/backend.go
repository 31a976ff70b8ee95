// Package server is the HTTP edge of pml: a JSON interface under /api/v1 with
// server-sent events, an OpenAPI document made from the same types, and who may
// call it. It runs nothing itself: a Backend does.
package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Half gives the part of the server half that a scope may use. core/local's
// Client is what stands behind it.
type Half func(scope api.Scope) (Backend, error)

// Backend is the server half in one scope: ids of other owners' runs are
// core.CodeNotFound.
type Backend interface {
	Runs
	Journal
	Approvals
	Tools
}

// Runs starts and moves runs.
type Runs interface {
	Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error)
	Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error)
	Retry(ctx context.Context, id core.ID, by core.Actor, wait time.Duration) (api.Result, error)
	Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error)
	Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error)
	// ReplanFor adds the tasks that are suggested for a requirement; available
	// names values that their arguments may use.
	ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error)
	// Trace takes what a client reports of a run that it was given. The same
	// report again is no error.
	Trace(ctx context.Context, id core.ID, t api.Trace) error
}

// Journal reads what is kept.
type Journal interface {
	Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error)
	Workflow(ctx context.Context, id core.ID) (core.Workflow, error)
	// Program is what a run executes, its newest version.
	Program(ctx context.Context, id core.ID) (core.Program, error)
	Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error)
	Records(ctx context.Context, id core.ID, after int64) ([]core.Record, error)
	RemoveWorkflows(ctx context.Context, ids ...core.ID) error
	// Events calls f for events in order; with follow it waits for more until
	// the context ends.
	Events(ctx context.Context, id core.ID, since int64, follow bool, f func(core.Event) error) error
	// Snapshot is what a stream of events begins with.
	Snapshot(ctx context.Context) (api.Snapshot, error)
	// Resolve accepts an id, a prefix of 4 or more, or @latest.
	Resolve(ctx context.Context, text string) (id, approval core.ID, err error)
	// Audit lists rows of the audit log after a sequence number, those of the
	// scope's runs; limit 0 means all.
	Audit(ctx context.Context, after int64, limit int) ([]core.AuditRow, error)
	// VerifyAudit checks the chain of the whole log, whatever the scope sees of it.
	VerifyAudit(ctx context.Context) (api.AuditReport, error)
}

// Auditor is a Backend that keeps what was refused before it came to the half.
type Auditor interface {
	// Refused puts a refused attempt of the scope into the audit log; run may be
	// empty. A run that is not the scope's is not in the row.
	Refused(ctx context.Context, run core.ID, reason string) error
}

// Approvals lists and keeps alive what waits for a person; Continue decides.
type Approvals interface {
	Approvals(ctx context.Context, all bool) ([]core.Approval, error)
	Approval(ctx context.Context, id core.ID) (core.Approval, error)
	Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error)
	Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error)
}

// Tools lists and plans.
type Tools interface {
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
	CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (api.Result, error)
	Plan(ctx context.Context, req api.ExecuteRequest) (core.Plan, error)
}
