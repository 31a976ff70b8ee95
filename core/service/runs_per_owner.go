package service

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// begin starts a run, if its owner may have one more and the gates foresee
// nothing that it cannot do.
func (c *execution) begin(ctx, bounded context.Context, cfg *env.Config, run core.Run, p core.Program) (*engine.Handle, error) {
	if c.o.Side == core.SideServer {
		begun, err := c.open.admit(ctx, run, cfg.Limits.Runs, c.now())
		if err != nil {
			return nil, err
		}
		defer begun()
	}
	if p.Kind == core.KindCode {
		p.ResultBytes = min(cfg.Limits.ResultBytes, sandbox.MaxResultBytes)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return nil, err
	}
	foresight, err := foresee(ctx, bounded, eng, run, p)
	if err = c.programs.withMisfits(bounded, p, err); err != nil {
		return nil, err
	}
	return eng.StartForeseen(ctx, run, p, foresight)
}

// openRuns bounds how many runs of each owner there are on a server that have
// not ended. They are counted in the store when what was counted last, and what
// was started since, could be too many, and now and then: other servers of the
// same database start runs as well.
type openRuns struct {
	store store.Store

	mu     sync.Mutex
	owners map[string]*ownerRuns
}

// ownerRuns is what is known of the runs of one owner.
type ownerRuns struct {
	most     int // there are no more than that, those that are being started left out
	starting int
	counted  time.Time
}

// recount is how old a count may be.
const recount = 10 * time.Second

// unended are the states of the runs that count.
var unended = []core.RunState{core.RunRunning, core.RunWaiting, core.RunInterrupted}

// admit lets one more run be started, or refuses it with core.CodeRunLimit. begun
// is called once the run is in the store, or will not be.
func (o *openRuns) admit(ctx context.Context, run core.Run, limit int, now time.Time) (begun func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owners == nil {
		o.owners = map[string]*ownerRuns{}
	}
	known := o.owners[run.Owner]
	if known == nil {
		known = &ownerRuns{}
		o.owners[run.Owner] = known
	}
	if known.most+known.starting >= limit || now.Sub(known.counted) > recount {
		going, waiting, err := o.count(ctx, run.Owner)
		if err != nil {
			return nil, err
		}
		known.most, known.counted = going+waiting, now
		if going+waiting+known.starting >= limit {
			if again, err := o.again(ctx, run); again || err != nil {
				return func() {}, err
			}
			return nil, core.Errorf(core.CodeRunLimit, "nothing was run: there are %d runs that have not ended, %d of them wait for a person, and limits.runs is %d. Decide or abort some (pml approvals, pml abort ID), or raise limits.runs in the configuration of the server",
				going+waiting+known.starting, waiting, limit).WithNext("pml", "workflows", "ls", "--state", "waiting")
		}
	}
	known.starting++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		known.starting--
		known.most++
	}, nil
}

// count counts the runs of an owner that have not ended.
func (o *openRuns) count(ctx context.Context, owner string) (going, waiting int, err error) {
	list, err := o.store.Runs(ctx, store.RunFilter{States: unended, Owner: owner})
	for _, r := range list {
		switch {
		case r.Owner != owner || r.Remote: // another's, or its machine runs it
		case r.State == core.RunWaiting:
			waiting++
		default:
			going++
		}
	}
	return going, waiting, err
}

// again reports whether a run was asked for before: then there is no further one.
func (o *openRuns) again(ctx context.Context, run core.Run) (bool, error) {
	if run.IdempotencyKey == "" {
		return false, nil
	}
	list, err := o.store.Runs(ctx, store.RunFilter{IdempotencyKey: run.IdempotencyKey, Workspace: run.Workspace, Limit: 1})
	return len(list) > 0, err
}
