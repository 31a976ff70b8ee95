package feed

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Backend is both halves of pml as one, as far as the terminal needs them.
type Backend interface {
	Reader
	Decider
	Planner
	Rules
	Keys
}

// Reader reads what there is.
type Reader interface {
	Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error)
	Workflow(ctx context.Context, id core.ID) (core.Workflow, error)
	Approvals(ctx context.Context, all bool) ([]core.Approval, error)
	// Events calls f for events in order and, with follow, waits for more until
	// the context ends. They say their side.
	Events(ctx context.Context, id core.ID, since api.Since, follow bool, f func(core.Event) error) error
	// Audit lists rows of the audit logs by time; they say their side, where there
	// are two.
	Audit(ctx context.Context, since api.Since, limit int) ([]core.AuditRow, error)
}

// Decider decides, and moves runs. A run whose runner is dead is taken over by
// this process, in the run's own workspace, and goes on behind the call.
type Decider interface {
	Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error)
	Retry(ctx context.Context, id core.ID, by core.Actor, wait time.Duration) (api.Result, error)
	Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error)
	Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error)
	Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error)
}

// Planner adds tasks to a DAG.
type Planner interface {
	ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error)
	Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error)
}

// Rules remembers decisions.
type Rules interface {
	RuleFor(ctx context.Context, approval core.ID) (api.Rule, error)
	Write(ctx context.Context, set api.ChangeSet, keepTrust bool, pin string) (trusted bool, err error)
	NeedsPin(ctx context.Context) (bool, error)
}

// Keys looks for keys that are asked for.
type Keys interface {
	// KeysFound returns the names of those keys of an approval that were missing
	// and are set by now, in the environment or in the .env of its workspace; a
	// placeholder is none. It is nil where this machine cannot tell: of an
	// approval of a server, or of another type.
	KeysFound(ctx context.Context, approval core.ID) ([]string, error)
}
