package app

import "github.com/casys-ai/pml/core/api"

// Backend is what the commands need of the rest of pml. It is opened on first
// use, so that commands that need nothing start nothing.
type Backend interface {
	api.Runs
	Journal
	Decisions
	api.Catalog
	api.DAGs
	api.Setup
	Close() error
}

// Journal reads and changes what is kept of runs.
type Journal interface {
	api.Workflows
	api.Archive
	api.Audit
}

// Decisions are what waits for a person.
type Decisions interface {
	api.Approvals
	api.Answers
}
