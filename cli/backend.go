// Package cli is the command line: one file a command, output in every format,
// exit codes. It talks to the rest of pml through Backend only.
package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Backend is what the commands need of the rest of pml. It is opened on first
// use, so that commands that need nothing start nothing.
type Backend interface {
	Runs
	Programs
	Approvals
	Workspace
	Tools
	Servers
	Changes
	Hosts
	Journal
	Close() error
}

// Runs starts and moves runs. IDs are full ids; Resolve turns what a person
// typed into one.
type Runs interface {
	// Resolve accepts a full id, a prefix of 4 or more, or @latest; it answers
	// for runs and, when no run matches, for approvals (then approval is set and
	// id is the approval's run).
	Resolve(ctx context.Context, text string) (id, approval core.ID, err error)
	Execute(ctx context.Context, req api.ExecuteRequest) (api.Result, error)
	Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error)
	Retry(ctx context.Context, id core.ID, by core.Actor, wait time.Duration) (api.Result, error)
	Abort(ctx context.Context, id core.ID, by core.Actor, reason string) (api.Result, error)
	Replan(ctx context.Context, id core.ID, tasks []core.TaskSpec, by core.Actor, reason string) (api.Result, error)
	// ReplanFor adds the tasks that are suggested for a requirement in words;
	// available is what the tasks may use, nil for nothing more.
	ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error)
}

// Programs reads programs. Neither method runs anything.
type Programs interface {
	// Plan says what a program would do.
	Plan(ctx context.Context, req api.ExecuteRequest) (core.Plan, error)
	// ParseDAG reads a DAG file in JSON: its tasks and its input (nil: none).
	// All that is wrong is reported together, tools that do not exist as well, as
	// faults with JSON pointers; the command line turns those into lines of the
	// file it read.
	ParseDAG(data []byte) ([]core.TaskSpec, json.RawMessage, error)
}

// Journal reads what is kept.
type Journal interface {
	Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error)
	Workflow(ctx context.Context, id core.ID) (core.Workflow, error)
	RemoveWorkflows(ctx context.Context, ids ...core.ID) error
	// Prune removes runs that ended before a time and returns how many.
	Prune(ctx context.Context, before time.Time) (int, error)
	// Events calls f for events in order; with follow it waits for more until
	// the context ends. Those of all runs say their side.
	Events(ctx context.Context, id core.ID, since api.Since, follow bool, f func(core.Event) error) error
	// Audit lists rows of the audit logs by time; they say their side where there
	// are two.
	Audit(ctx context.Context, since api.Since, limit int) ([]core.AuditRow, error)
	VerifyAudit(ctx context.Context) (api.AuditReport, error)
}

// Approvals lists and keeps alive what waits for a person; Continue decides.
type Approvals interface {
	Approvals(ctx context.Context, all bool) ([]core.Approval, error)
	Approval(ctx context.Context, id core.ID) (core.Approval, error)
	Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error)
	// Renew asks again for an approval that expired.
	Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error)
}

// Tools lists and calls tools of the workspace's servers.
type Tools interface {
	// Tools lists the tools of every server that may be started without a
	// decision; problems names the others and why.
	Tools(ctx context.Context) (tools []core.Tool, problems []core.Fault, err error)
	// CallTool runs one call as a run of its own, through all gates.
	CallTool(ctx context.Context, tool string, args json.RawMessage, by core.Actor, wait time.Duration) (api.Result, error)
}

// Servers looks at MCP servers and changes what is configured and installed.
// Methods that return a Change or a ChangeSet write nothing: Changes.Write does.
type Servers interface {
	// Servers lists the configured servers without starting anything.
	Servers(ctx context.Context) ([]api.ServerInfo, error)
	// CheckServers starts those that may be started (all without names) and
	// compares their tools. A server that fails is no error of the call.
	CheckServers(ctx context.Context, names ...string) ([]api.ServerInfo, error)
	AddServer(ctx context.Context, e api.ServerEntry) (api.ChangeSet, error)
	RemoveServer(ctx context.Context, name string) (api.ChangeSet, error)
	// Purge removes what this machine keeps of a server: approvals, credentials
	// and installed trees that nobody else uses.
	Purge(ctx context.Context, name string) (api.Removed, error)
	ImportServers(ctx context.Context, req api.ImportRequest) (api.Import, error)
	// LockServers resolves servers (all without names) and pins them in pml.lock;
	// with check it only compares. It approves and installs nothing.
	LockServers(ctx context.Context, check bool, names ...string) (api.LockReport, error)
	// UpdateServer looks for a newer version; with the digest of an update that
	// was shown it installs and approves exactly that.
	UpdateServer(ctx context.Context, req api.UpdateRequest, progress func(string)) (api.Update, error)
	// ConnectServer takes a person through OAuth: show is told the URL to open.
	// It returns once the server is connected, or the context ends.
	ConnectServer(ctx context.Context, name string, show func(url string)) error
}

// Changes prepares and writes changes of configuration files.
type Changes interface {
	// RuleFor is the rule that would remember an approval (its tool, allowed).
	RuleFor(ctx context.Context, approval core.ID) (api.Rule, error)
	// PinChange sets the PIN of approvals.pin in the home's configuration, or
	// removes it when the new one is empty. An existing PIN must be given.
	PinChange(ctx context.Context, old, new string) (api.ChangeSet, error)
	// Write writes what was shown, if the files are still those it was made
	// from (else core.CodeDigestMismatch). With keepTrust a workspace that is
	// trusted stays trusted with exactly this change; trusted says whether it is
	// now. A PIN, where one is set, is needed for keepTrust.
	Write(ctx context.Context, set api.ChangeSet, keepTrust bool, pin string) (trusted bool, err error)
	// NeedsPin reports whether approvals need a PIN here.
	NeedsPin(ctx context.Context) (bool, error)
}

// Workspace is what the files of the workspace and this machine say.
type Workspace interface {
	Trust(ctx context.Context) (api.TrustState, error)
	// SetTrust trusts the content that has the digest (else core.CodeDigestMismatch).
	// pin is needed where approvals.pin is set.
	SetTrust(ctx context.Context, digest, pin string) error
	// Init writes a first .pml.json and returns the path; an existing one is an error.
	Init(ctx context.Context) (string, error)
	Doctor(ctx context.Context) ([]api.Check, error)
	// Config is the effective configuration, secrets left out.
	Config(ctx context.Context) (json.RawMessage, error)
	// Paths says where things are kept; a file need not exist.
	Paths(ctx context.Context) (api.Paths, error)
}
