package feed

import "github.com/casys-ai/pml/core/api"

// Backend is both halves of pml as one, as far as the terminal needs them. A run
// whose runner is dead is taken over by this process, in the run's own workspace,
// and goes on behind the call.
type Backend interface {
	Reader
	api.Runs
	api.DAGs
	api.Answers
	api.Changes
	api.Pin
}

// Reader reads what there is. Events and rows of the audit log say their side.
type Reader interface {
	api.Workflows
	api.Approvals
	api.Audit
	api.Halting
}
