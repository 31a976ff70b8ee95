package app

import (
	"context"

	"github.com/casys-ai/pml/core/api"
)

// Backend is what the commands need of the rest of pml. It is opened on first
// use, so that commands that need nothing start nothing.
type Backend interface {
	api.Runs
	Journal
	Decisions
	Tools
	api.Setup
	Hooks
	Close() error
}

// Journal reads and changes what is kept of runs.
type Journal interface {
	api.Workflows
	api.Archive
	api.Audit
	api.Halting
}

// Tools are what programs call, and the programs that are graphs of calls.
type Tools interface {
	api.Catalog
	api.DAGs
}

// Hooks are what runs around calls: pml's own, and those of hosts that ask pml.
type Hooks interface {
	api.Flows
	api.HostCalls
}

// Decisions are what waits for a person.
type Decisions interface {
	api.Approvals
	api.Answers
}

// NoteTrust tells a person that pml ignores what files of the workspace grant: nobody has trusted
// them, or somebody has changed them since. What cannot be read is for the command itself to say.
func NoteTrust(ctx context.Context, a *App, b Backend) {
	s, err := b.Trust(ctx)
	switch {
	case err != nil || s.Trusted || s.LockAside || s.Empty || s.Digest == "":
	case s.Diff != "":
		a.Note("note: the files of this workspace have changed since you trusted them: pml ignores what they allow and set, and keeps to what they forbid, until you run pml trust")
	default:
		a.Note("note: the files of this workspace are not trusted on this machine: pml ignores what they allow and set, and keeps to what they forbid, until you run pml trust")
	}
}
