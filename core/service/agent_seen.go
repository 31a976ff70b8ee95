package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/live"
	"github.com/casys-ai/pml/core/model"
	"github.com/casys-ai/pml/store"
)

// withSpent is the header of a run with what it has used so far, of an agent. One that
// cannot be read says nothing of it.
func (c *history) withSpent(ctx context.Context, run core.Run) core.Run {
	if run.Kind != core.KindAgent {
		return run
	}
	if spent, ok := c.used.get(run); ok {
		run.Agent = &spent
	} else if spent, err := c.spent(ctx, run); err == nil {
		c.used.put(run, spent)
		run.Agent = &spent
	}
	return run
}

// maxSpent bounds the agents of which is remembered what they have used.
const maxSpent = 2000

// spentCache remembers what agents that have ended have used, for lists: it does not
// change any more, unless the run is taken up again and its journal grows. The zero value
// is ready.
type spentCache struct {
	mu   sync.Mutex
	byID map[core.ID]spentAt
}

// spentAt is what an agent had used when its journal was so long.
type spentAt struct {
	core.AgentSpent
	seq   int64
	state core.RunState
}

func (c *spentCache) get(run core.Run) (core.AgentSpent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.byID[run.ID]
	return s.AgentSpent, ok && s.seq == run.JournalSeq && s.state == run.State
}

func (c *spentCache) put(run core.Run, spent core.AgentSpent) {
	if !run.State.Final() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= maxSpent {
		c.byID = map[core.ID]spentAt{}
	}
	c.byID[run.ID] = spentAt{spent, run.JournalSeq, run.State}
}

func (c *history) spent(ctx context.Context, run core.Run) (core.AgentSpent, error) {
	program, err := c.o.Store.Program(ctx, run.ID)
	if err != nil || program.Agent == nil {
		return core.AgentSpent{}, err
	}
	var asked []core.Approval
	if program.Agent.Budget.Ask {
		if asked, err = c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Now: c.now()}); err != nil {
			return core.AgentSpent{}, err
		}
	}
	if run.State == core.RunComplete { // its result says it; a list has no results
		whole, err := c.o.Store.Run(ctx, run.ID)
		return core.SpentBy(*program.Agent, core.Workflow{Run: whole, Approvals: asked}), err
	}
	records, err := c.o.Store.Journal(ctx, run.ID, 0)
	return core.SpentBy(*program.Agent, engine.View(run, program, records, asked)), err
}

// endedBelow are the runs that an agent has started and that have ended, and those below
// them.
func (c *history) endedBelow(ctx context.Context, run core.Run) ([]core.ID, error) {
	if !run.Starts {
		return nil, nil
	}
	records, err := c.o.Store.Journal(ctx, run.ID, 0)
	if err != nil {
		return nil, err
	}
	var out []core.ID
	for _, r := range records {
		id := engine.ChildOf(run.ID, r)
		if r.Kind != core.RecordStarted || id == "" {
			continue
		}
		child, err := c.o.Store.Run(ctx, id)
		if core.CodeOf(err) == core.CodeNotFound || err == nil && !child.State.Final() {
			continue
		}
		if err != nil {
			return nil, err
		}
		deeper, err := c.endedBelow(ctx, child)
		if err != nil {
			return nil, err
		}
		out = append(append(out, id), deeper...)
	}
	return out, nil
}

// pathFinder finds the ways that led from agents to what is asked, each once.
type pathFinder struct {
	*view
	known map[core.ID][]string
}

// of is the way from an agent to the run that asks, nil of a run that is in the tree of
// none: of a long list most are not, and their runs are not read. What cannot be read is
// left out: the question stands without it.
func (f *pathFinder) of(ctx context.Context, ap core.Approval) []string {
	if ap.State != core.ApprovalOpen || ap.Agent == "" {
		return nil
	}
	path, ok := f.known[ap.RunID]
	if !ok {
		path = f.to(ctx, ap.RunID)
		f.known[ap.RunID] = path
	}
	return slices.Clone(path)
}

func (f *pathFinder) to(ctx context.Context, id core.ID) (path []string) {
	run, err := f.o.Store.Run(ctx, id)
	for err == nil && run.Below() {
		var parent core.Run
		if parent, err = f.o.Store.Run(ctx, run.ParentID); err != nil {
			break
		}
		name := cmp.Or(run.Intent, run.Title())
		if parent.Kind != core.KindAgent {
			path = append([]string{name}, path...)
			run = parent
			continue
		}
		if run.Intent == "" { // the model has given none
			_, name, _ = strings.Cut(name, " › ")
		}
		var records []core.Record
		if records, err = f.o.Store.Journal(ctx, parent.ID, 0); err != nil {
			break
		}
		path = append([]string{fmt.Sprintf("iteration %d", iterationOf(parent.ID, records, id)), name}, path...)
		run, id = parent, parent.ID
	}
	if path == nil {
		return nil
	}
	return append([]string{run.Title()}, path...)
}

// iterationOf is the iteration of an agent in which it started a run.
func iterationOf(parent core.ID, records []core.Record, child core.ID) int {
	n := 0
	for _, r := range records {
		switch {
		case r.Kind == core.RecordSettled && r.Tool == core.ModelTool:
			n++
		case r.Kind == core.RecordStarted && engine.ChildOf(parent, r) == child:
			return n
		}
	}
	return n
}

// ask asks a model for an agent, and shows what it writes to whoever watches.
func (c *process) ask(ctx context.Context, run core.Run, call, name string, req model.Request) (model.Answer, error) {
	if c.base.Side == core.SideClient { // the watchers of a server are connected to it
		c.shared.Do(func() {
			if err := c.texts.Share(c.life, c.base.Home.Live(), run.Runner); err != nil {
				c.base.Logger.Debug("other processes cannot watch what models write here", "error", core.AsError(err))
			}
		})
	}
	text := c.texts.Begin(run.ID, call, c.machine.Redactor(run.Workspace))
	defer text.End()
	req.OnText = text.Add
	return c.base.Models.Ask(ctx, run.Workspace, name, req)
}

// Said implements api.Workflows.
func (c *history) Said(ctx context.Context, id core.ID, f func(core.Event) error) error {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if c.o.Side == core.SideClient && run.Runner != "" && run.Runner != c.runnerID() {
		err := live.WatchOther(ctx, c.o.Home.Live(), run.Runner, id, f)
		if err != nil || c.runnerID() == "" {
			return err
		}
	}
	return c.texts.Watch(ctx, id, f)
}
