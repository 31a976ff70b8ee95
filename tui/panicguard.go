package tui

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/feed"
)

// guarded is a backend whose panics end the program with the terminal restored:
// it is read in goroutines of the feed, where a panic would end the process at
// once.
type guarded struct {
	feed.Reader
	crashed func(crash)
}

// caught is the error of a call that panicked.
func (g guarded) caught(err *error) {
	if r := recover(); r != nil {
		g.crashed(newCrash(r))
		*err = core.Errorf(core.CodeInternal, "the terminal crashed")
	}
}

// Workflows implements feed.Reader.
func (g guarded) Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (_ api.Page[core.Run], err error) {
	defer g.caught(&err)
	return g.Reader.Workflows(ctx, states, limit, cursor)
}

// Workflow implements feed.Reader.
func (g guarded) Workflow(ctx context.Context, id core.ID) (_ core.Workflow, err error) {
	defer g.caught(&err)
	return g.Reader.Workflow(ctx, id)
}

// Approvals implements feed.Reader.
func (g guarded) Approvals(ctx context.Context, all bool) (_ []core.Approval, err error) {
	defer g.caught(&err)
	return g.Reader.Approvals(ctx, all)
}

// Events implements feed.Reader.
func (g guarded) Events(ctx context.Context, id core.ID, since api.Since, follow bool, f func(core.Event) error) (err error) {
	defer g.caught(&err)
	return g.Reader.Events(ctx, id, since, follow, f)
}

// Said implements feed.Reader.
func (g guarded) Said(ctx context.Context, id core.ID, f func(core.Event) error) (err error) {
	defer g.caught(&err)
	return g.Reader.Said(ctx, id, f)
}

// Audit implements feed.Reader.
func (g guarded) Audit(ctx context.Context, q api.AuditQuery) (_ []core.AuditRow, err error) {
	defer g.caught(&err)
	return g.Reader.Audit(ctx, q)
}

// links is the same for those who watch connections.
func (g guarded) links(watch func(context.Context, func(feed.Link))) func(context.Context, func(feed.Link)) {
	if watch == nil {
		return nil
	}
	return func(ctx context.Context, f func(feed.Link)) {
		var err error
		defer g.caught(&err)
		watch(ctx, f)
	}
}
