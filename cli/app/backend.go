package app

import "github.com/casys-ai/pml/core/api"

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
