package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// What follows is the contract between what people and agents use (commands,
// terminal, HTTP, MCP) and what does it. core/service and core/setup implement it
// on a machine, core/client by HTTP, and core/route puts both together. Ids are
// full ids; one that is not of the caller's scope is core.CodeNotFound.

// Runs starts and moves runs.
type Runs interface {
	// Execute runs a program, or answers what an intent could mean.
	Execute(ctx context.Context, req ExecuteRequest) (Result, error)
	// Continue decides, if a decision is given, and goes on with the run. What only
	// a person may decide is core.CodeAwaitingHuman when an agent does.
	Continue(ctx context.Context, req ContinueRequest) (Result, error)
	// Retry runs the failed calls of a failed run again.
	Retry(ctx context.Context, id core.ID, by core.Actor, wait time.Duration) (Result, error)
	Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (Result, error)
	Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (Result, error)
	// ReplanFor adds the tasks that are suggested for a requirement in words;
	// available is what the tasks may use, nil for nothing more.
	ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (Result, error)
}

// Halting stops all calls, and lets them go on. Of several halves each has a halt of its
// own.
type Halting interface {
	// Halts are those that hold.
	Halts(ctx context.Context) ([]core.Halt, error)
	// HaltCalls halts all calls and returns the halts that hold then: earlier ones stay.
	// Once it has returned, no call begins; those under way may end. What halves could
	// not be halted is its error.
	HaltCalls(ctx context.Context, by core.Actor, reason string) ([]core.Halt, error)
	// ResumeCalls lets calls go on and returns the halts that it has ended. Only a person
	// may: core.CodeAwaitingHuman, core.CodeAuth.
	ResumeCalls(ctx context.Context, req ResumeRequest) ([]core.Halt, error)
}

// ResumeRequest lets calls go on that were halted.
type ResumeRequest struct {
	By     core.Actor
	Reason string
	// Pin and Presence are as those of a Decision.
	Pin      string
	Presence core.Presence
}

// DAGs reads programs that are graphs.
type DAGs interface {
	// ParseDAG reads a DAG file in JSON: its tasks and its input (nil: none).
	// All that is wrong is reported together, tools that do not exist as well, as
	// faults with JSON pointers.
	ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error)
}

// Workflows reads runs, and removes them.
type Workflows interface {
	// Resolve turns what a person typed into a run: a full id, a prefix of 4 or
	// more, or @latest, the newest of the workspace. When no run matches, approvals
	// do: then approval is set and id is the approval's run.
	Resolve(ctx context.Context, text string) (id, approval core.ID, err error)
	Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (Page[core.Run], error)
	Workflow(ctx context.Context, id core.ID) (core.Workflow, error)
	// Events calls f for events in order; with follow it waits for more until the
	// context ends. Of several halves those of all runs say their side.
	Events(ctx context.Context, id core.ID, since Since, follow bool, f func(core.Event) error) error
	// Said calls f with pieces of what the model of a run writes (core.EventAgentText), from
	// the beginning of the answer that is under way. It goes on until the context ends or f
	// fails, or there is nobody to ask any more. What f is too slow for comes together.
	Said(ctx context.Context, id core.ID, f func(core.Event) error) error
	RemoveWorkflows(ctx context.Context, ids ...core.ID) error
	// ExportRun is a run as a file.
	ExportRun(ctx context.Context, id core.ID) (RunFile, error)
}

// Below reports whether a run is another one, or was started by it or by one below it: what
// runs of an agent ask is decided under the agent's id, too.
func Below(ctx context.Context, b Workflows, run, above core.ID) bool {
	for run != above {
		w, err := b.Workflow(ctx, run)
		if err != nil || !w.Below() || w.ParentID == run {
			return false
		}
		run = w.ParentID
	}
	return true
}

// Archive keeps runs of files, and removes old ones.
type Archive interface {
	// ImportRun keeps a copy of the run of a file on this machine. It has ended, and
	// nothing can take it up.
	ImportRun(ctx context.Context, data []byte) (ImportedRun, error)
	// Prune removes runs that ended before a time and returns how many.
	Prune(ctx context.Context, before time.Time) (int, error)
}

// Details are what a server tells of one run beside its Workflow.
type Details interface {
	// Program is what a run executes, its newest version.
	Program(ctx context.Context, id core.ID) (core.Program, error)
	Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error)
	// Checkpoint is the run as it stood at a checkpoint; text is its id, or that
	// of an approval that was asked for after it, or 4 or more characters of one.
	Checkpoint(ctx context.Context, id core.ID, text string) (core.CheckpointView, error)
	Records(ctx context.Context, id core.ID, after int64) ([]core.Record, error)
	// Snapshot is what a stream of events begins with.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Traces takes what a client reports of a run that a server gave to it. The same
// report again is no error.
type Traces interface {
	Trace(ctx context.Context, id core.ID, t Trace) error
}

// Approvals lists and keeps alive what waits for a person; Continue decides.
type Approvals interface {
	// Approvals are those that wait; with all also those that do not any more.
	Approvals(ctx context.Context, all bool) ([]core.Approval, error)
	// Decidable are those that a decision can be about: open, or expired and not asked
	// again, of runs that have not ended. It costs nothing for what was decided before.
	Decidable(ctx context.Context) ([]core.Approval, error)
	Approval(ctx context.Context, id core.ID) (core.Approval, error)
	Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error)
	// Renew asks again for an approval that expired.
	Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error)
	// Edited is what an approval of a tool's call would ask with other arguments, under
	// its own digest; nothing is kept. Continue takes them in the decision's answer,
	// with that digest.
	Edited(ctx context.Context, id core.ID, args json.RawMessage) (core.Approval, error)
}

// Answers are what helps a person to decide an approval of this machine.
type Answers interface {
	// RuleFor is the rule that would remember an approval (its tool, allowed).
	RuleFor(ctx context.Context, approval core.ID) (Rule, error)
	// KeysFound names those keys of an approval that were missing and are set by
	// now, in the environment or in the .env of its workspace; a placeholder is
	// none. It is nil where this machine cannot tell: of an approval of a server, or
	// of another type.
	KeysFound(ctx context.Context, approval core.ID) ([]string, error)
}

// Catalog lists, plans and calls what runs can call.
type Catalog interface {
	// Tools lists the tools of every server that may be started without a
	// decision; problems names the others and why.
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
	// CallTool runs one call as a run of its own, through all gates.
	CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (Result, error)
	// Plan says what a program would do, and runs nothing.
	Plan(ctx context.Context, req ExecuteRequest) (core.Plan, error)
}

// Audit is the audit log: what was decided and what was refused.
type Audit interface {
	// Audit lists rows, of a scope those of its runs. Of several logs it lists them by
	// time, and the rows say their side.
	Audit(ctx context.Context, q AuditQuery) ([]core.AuditRow, error)
	// VerifyAudit checks the chain of each whole log, whatever a scope sees of it.
	VerifyAudit(ctx context.Context) (AuditReport, error)
}

// AuditQuery says which rows of the audit log are wanted. Zero fields do not
// restrict.
type AuditQuery struct {
	core.AuditFilter
	Since  Since // rows after these numbers
	Before Since // rows before these numbers
	Newest bool  // newest first
	Args   bool  // with the arguments that were decided about
	Limit  int
}

// Visits are kept by whoever has the audit log of a scope: which browsers were let in, or
// shut out, and who tried in vain. A zero by is whoever the scope is of.
type Visits interface {
	// Visited puts into the audit log what was done; what is done again within a minute,
	// by the same one, with the same code, shares a row; with none each has its own.
	Visited(ctx context.Context, by core.Actor, code, what string) error
	// RefusedVisit is the same for an attempt that was refused.
	RefusedVisit(ctx context.Context, by core.Actor, code, why string) error
}

// Refusals are kept by whoever has the audit log of a scope.
type Refusals interface {
	// Refused puts an attempt that was refused into the audit log. run may be empty;
	// one that is not the scope's is not in the row. A zero by is whoever the scope is of.
	Refused(ctx context.Context, run core.ID, by core.Actor, reason string) error
}
