package plain_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/plain"
)

// altered is a backend whose answers a test changes, and what was done to it.
type altered struct {
	feed.Backend
	mu        sync.Mutex
	approvals func([]core.Approval) []core.Approval
	workflow  func(*core.Workflow) error
	page      func(context.Context, *api.Page[core.Run])
	did       []string
	rules     []string
	remember  core.Remember
	shape     *core.Shape
}

// change changes the answers from now on.
func (b *altered) change(f func(b *altered)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func (b *altered) note(what string) { b.change(func(b *altered) { b.did = append(b.did, what) }) }

// done returns what was done since it was last asked.
func (b *altered) done() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	did := b.did
	b.did = nil
	return did
}

func (b *altered) Approvals(ctx context.Context, all bool) ([]core.Approval, error) {
	list, err := b.Backend.Approvals(ctx, all)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.approvals != nil {
		list = b.approvals(list)
	}
	return list, err
}

func (b *altered) Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	page, err := b.Backend.Workflows(ctx, states, limit, cursor)
	b.mu.Lock()
	f := b.page
	b.mu.Unlock()
	if f != nil {
		f(ctx, &page)
	}
	return page, err
}

func (b *altered) Workflow(ctx context.Context, id core.ID) (core.Workflow, error) {
	w, err := b.Backend.Workflow(ctx, id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.approvals != nil {
		w.Approvals = b.approvals(w.Approvals)
	}
	if err == nil && b.workflow != nil {
		err = b.workflow(&w)
	}
	return w, err
}

func (b *altered) Continue(ctx context.Context, r api.ContinueRequest) (api.Result, error) {
	b.note("continue")
	if r.Decision != nil && r.Decision.Answer != nil {
		b.change(func(b *altered) { b.remember, b.shape = r.Decision.Answer.Remember, r.Decision.Answer.Shape })
	}
	return b.Backend.Continue(ctx, r)
}

func (b *altered) Retry(ctx context.Context, id core.ID, by core.Actor, d time.Duration) (api.Result, error) {
	b.note("retry")
	return b.Backend.Retry(ctx, id, by, d)
}

func (b *altered) Abort(ctx context.Context, id core.ID, by core.Actor, why string) (api.Result, error) {
	b.note("abort")
	return b.Backend.Abort(ctx, id, by, why)
}

func (b *altered) Extend(ctx context.Context, id core.ID, by time.Duration) (core.Approval, error) {
	b.note("extend")
	return b.Backend.Extend(ctx, id, by)
}

func (b *altered) Renew(ctx context.Context, id core.ID, by core.Actor) (core.Approval, error) {
	b.note("renew")
	return b.Backend.Renew(ctx, id, by)
}

func (b *altered) RuleFor(ctx context.Context, id core.ID) (api.Rule, error) {
	r, err := b.Backend.RuleFor(ctx, id)
	r.Change.Before, r.Change.After = []byte("old"), []byte("new")
	return r, err
}

func (b *altered) Write(_ context.Context, set api.ChangeSet, _ bool, _ string) (bool, error) {
	b.note("write")
	b.change(func(b *altered) { b.rules = append(b.rules, set.Changes[0].Digest) })
	return true, nil
}

// altering runs f with a dialogue about a demo whose answers can be changed.
func altering(t *testing.T, change func(*altered, *plain.Options), f func(*talk, *altered)) {
	t.Helper()
	b := &altered{}
	dialogue(t, func(o *plain.Options) {
		b.Backend = o.Backend
		o.Backend = b
		if change != nil {
			change(b, o)
		}
	}, func(p *talk) { f(p, b) })
}

// other decides an approval from another terminal.
func (p *talk) other(a core.Approval) {
	p.t.Helper()
	_, err := p.b.Continue(p.t.Context(), api.ContinueRequest{
		ID: a.RunID, By: core.Actor{Who: "bob", Via: core.ViaCLI}, Decision: &api.Decision{Checkpoint: a.ID},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// after waits for some time and returns what was said in it.
func (p *talk) after(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	return p.out.take()
}

// nothing wants that nothing was done.
func (b *altered) nothing(t *testing.T, line string) {
	t.Helper()
	if did := b.done(); len(did) > 0 {
		t.Errorf("%q did %v", line, did)
	}
}
