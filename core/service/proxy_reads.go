package service

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// How calls that only read are kept.
const (
	readsDelay = 100 * time.Millisecond // the longest until one is kept
	readsSpan  = time.Minute            // of one list
	readsMost  = 1000                   // calls in one list
	readsSoon  = 200                    // pending calls that are kept at once
)

// readsOf is whose reads are one list.
type readsOf struct {
	workspace, owner, peer string
	by                     core.Actor
}

// readsRun is a list to which calls are being added.
type readsRun struct {
	run     core.Run
	kept    int // records in the store
	records []core.Record
}

// keepRead keeps a call that only read, soon. What is lost of it when pml is
// killed before is nothing that must not be done twice.
func (c *Service) keepRead(t *proxyCall, r core.Record) {
	of := readsOf{workspace: c.o.Workspace.Dir, owner: c.scope.Owner, by: t.by}
	if t.oc.Peer != nil {
		of.peer = t.oc.Peer.ID
	}
	th := c.through
	th.mu.Lock()
	defer th.mu.Unlock()
	l := th.reads[of]
	if l == nil {
		l = &readsRun{run: core.Run{Workspace: of.workspace, Owner: of.owner, Side: c.o.Side, Kind: core.KindReads, RequestedBy: t.by}}
		th.reads[of] = l
	}
	l.records = append(l.records, r)
	th.pending++
	switch {
	case th.flushing == nil:
		th.flushing = time.AfterFunc(readsDelay, func() {
			defer core.Recover(c.o.Logger, "calls that only read were kept", nil)
			c.flushReads(context.Background())
		})
	case th.pending == readsSoon:
		th.flushing.Reset(0)
	}
}

// flushReads keeps all calls that only read and are not kept yet.
func (c *Service) flushReads(ctx context.Context) {
	t := c.through
	t.write.Lock()
	defer t.write.Unlock()
	runner, err := c.proxyRunner(ctx)
	t.mu.Lock()
	if runner != t.runner {
		for of, l := range t.reads { // what is kept is of another runner
			t.reads[of] = &readsRun{run: core.Run{Workspace: of.workspace, Owner: of.owner, Side: c.o.Side, Kind: core.KindReads, RequestedBy: of.by}, records: l.records}
		}
		t.runner = runner
	}
	if t.flushing != nil {
		t.flushing.Stop()
	}
	t.flushing, t.pending = nil, 0
	var steps []store.Step
	now := c.now()
	for of, l := range t.reads {
		if len(l.records) > 0 && err == nil {
			steps = append(steps, c.readsSteps(l, runner, now)...)
		}
		l.records = nil
		if l.run.ID == "" || now.Sub(l.run.CreatedAt) >= readsSpan {
			delete(t.reads, of)
		}
	}
	t.mu.Unlock()
	for _, s := range steps {
		if err == nil {
			err = c.base.Store.Commit(ctx, s)
		}
	}
	if err != nil {
		c.o.Logger.Warn("calls that only read could not be kept", "error", core.AsError(err))
		t.mu.Lock()
		clear(t.reads) // the next ones begin a list of their own
		t.mu.Unlock()
	}
}

// readsSteps are what adds the pending records of a list to what is kept: to its
// run, and to further ones where that is full.
func (c *Service) readsSteps(l *readsRun, runner string, now time.Time) []store.Step {
	var steps []store.Step
	for len(l.records) > 0 {
		fresh := l.run.ID == "" || l.kept >= readsMost || now.Sub(l.run.CreatedAt) >= readsSpan
		if fresh {
			l.run.ID, l.run.CreatedAt, l.kept = c.o.NewID(), l.records[0].StartedAt, 0
		}
		some := l.records[:min(len(l.records), readsMost-l.kept)]
		l.records = l.records[len(some):]
		for i := range some {
			l.kept++
			some[i].Seq, some[i].CallID = int64(l.kept), "c"+strconv.Itoa(l.kept)
		}
		ended := some[len(some)-1].At
		l.run.Runner, l.run.Epoch, l.run.State, l.run.EndedAt, l.run.UpdatedAt = runner, 1, core.RunComplete, &ended, ended
		l.run.Intent = fmt.Sprintf("%d call(s) that only read", l.kept)
		step := store.Step{Run: l.run, Create: fresh, Records: some}
		if fresh {
			step.Program = &core.Program{Kind: core.KindReads, Version: 1}
		}
		steps = append(steps, step)
	}
	return steps
}
