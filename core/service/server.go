package service

import (
	"context"
	"slices"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// Program is what a run executes, its newest version.
func (c *history) Program(ctx context.Context, id core.ID) (core.Program, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return core.Program{}, err
	}
	p, err := planned(ctx, c.o.Store, id)
	return c.shownOf(run.Workspace).Program(p), err
}

// planned reads a run's program with its plan, which is not kept of a DAG.
func planned(ctx context.Context, s store.Reader, id core.ID) (core.Program, error) {
	p, err := s.Program(ctx, id)
	if err != nil {
		return p, err
	}
	return engine.Planned(p)
}

// Records is a run's journal after a sequence number.
func (c *history) Records(ctx context.Context, id core.ID, after int64) ([]core.Record, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	list, err := c.o.Store.Journal(ctx, id, after)
	show := c.shownOf(run.Workspace)
	out := make([]core.Record, len(list))
	for i, r := range list {
		out[i] = show.Record(r)
	}
	return out, err
}

// endedShown is how many ended runs a snapshot has.
const endedShown = 100

// Snapshot is what a stream of events begins with. Its Seq is read first: what
// happens meanwhile may be in it already and comes again as an event.
func (c *history) Snapshot(ctx context.Context) (api.Snapshot, error) {
	seq, err := c.events.last(ctx, c.base.Store)
	if err != nil {
		return api.Snapshot{}, err
	}
	s := api.Snapshot{Seq: seq, ServerTime: c.now(), Workflows: []core.Run{}}
	var live, ended []core.RunState
	for _, state := range core.RunStates {
		if state.Final() {
			ended = append(ended, state)
		} else {
			live = append(live, state)
		}
	}
	for _, f := range []store.RunFilter{{States: live}, {States: ended, Limit: endedShown}} {
		runs, err := c.runsShown(ctx, f)
		if err != nil {
			return api.Snapshot{}, err
		}
		for _, run := range runs {
			s.Workflows = append(s.Workflows, c.shownOf(run.Workspace).Run(c.present(ctx, run)))
		}
	}
	// A run may have ended between the two looks.
	seen := map[core.ID]bool{}
	s.Workflows = slices.DeleteFunc(s.Workflows, func(r core.Run) bool {
		twice := seen[r.ID]
		seen[r.ID] = true
		return twice
	})
	slices.SortStableFunc(s.Workflows, func(a, b core.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	s.Approvals, err = c.decisions.Approvals(ctx, false)
	return s, err
}

// runsShown are runs less the lists of calls that only read, up to a limit.
func (c *history) runsShown(ctx context.Context, f store.RunFilter) ([]core.Run, error) {
	var out []core.Run
	for {
		runs, err := c.o.Store.Runs(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			if run.Kind != core.KindReads && (f.Limit == 0 || len(out) < f.Limit) {
				out = append(out, run)
			}
		}
		if f.Limit == 0 || len(runs) < f.Limit || len(out) >= f.Limit {
			return out, nil
		}
		f.Before = runs[len(runs)-1].ID
	}
}

// newest remembers the newest event's number, so that it is found with a few
// reads.
type newest struct {
	mu  sync.Mutex
	seq int64
}

// last finds the number of the newest event: there is one after a number exactly
// when it is smaller.
func (n *newest) last(ctx context.Context, s store.Reader) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	after := func(seq int64) (bool, error) {
		list, err := s.Events(ctx, store.EventFilter{After: seq, Limit: 1})
		return len(list) > 0, err
	}
	low, step := n.seq, int64(1) // all up to low are there, so far as is known
	more, err := after(low)
	if err != nil || !more {
		return low, err
	}
	high := low + step
	for more {
		if more, err = after(high); err != nil {
			return 0, err
		}
		if more {
			low, step = high, 2*step
			high = low + step
		}
	}
	for low+1 < high { // one after low, none after high
		mid := low + (high-low)/2
		if more, err = after(mid); err != nil {
			return 0, err
		}
		if more {
			low = mid
		} else {
			high = mid
		}
	}
	n.seq = high
	return high, nil
}

// Visited implements api.Visits.
func (c *Service) Visited(ctx context.Context, by core.Actor, code, what string) error {
	row := core.AuditRow{Outcome: core.ApprovalApproved, By: by, Reason: what}
	if by.Via == core.ViaPage || by.Via == "" && c.o.By.Via == core.ViaPage {
		row.Asked = core.PresencePage
	}
	if code == "" {
		return c.trail.Record(ctx, row)
	}
	return c.trail.Visit(ctx, code, row)
}

// RefusedVisit implements api.Visits.
func (c *Service) RefusedVisit(ctx context.Context, by core.Actor, code, why string) error {
	return c.trail.Visit(ctx, code, core.AuditRow{By: by, Reason: why})
}

// Paired puts into the audit log that a browser was made a device, which the caller is.
func (c *Service) Paired(ctx context.Context, device string) error {
	return c.trail.Record(ctx, core.AuditRow{Outcome: core.ApprovalApproved, Asked: core.PresencePage, Reason: "paired the device " + device})
}

// OwnServers are the MCP servers of the workspace, with the health of the processes that this
// process runs.
func (c *Service) OwnServers(ctx context.Context) ([]api.ServerInfo, error) {
	return c.Setup.Servers.Servers(ctx)
}

// RestartOwn ends the process of an MCP server that this process runs, starts it anew, and
// says how it stands.
func (c *Service) RestartOwn(ctx context.Context, name string) ([]api.ServerInfo, error) {
	return c.Setup.Servers.RestartServer(ctx, name)
}
