package feed_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/state"
)

// wall is the clock of the bubble.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// backend is both halves of pml, in memory.
type backend struct {
	feed.Backend // for what is not asked

	mu        sync.Mutex
	runs      map[core.ID]core.Run
	layers    map[core.ID][]core.Layer
	approvals []core.Approval
	events    map[core.Side][]core.Event
	seqs      map[core.Side]int64
	more      chan struct{} // closed when there are more events, or they fail
	warnings  []string

	// fail is what a call returns, by its name; delay how long it takes.
	fail  map[string]error
	delay map[string]time.Duration
	// count is how often each was called; "passed" how many events were passed on
	// to who did not want to wait for more.
	count map[string]int
	// atOnce and most are how many runs are being read, and were at most.
	atOnce, most int
}

func newBackend() *backend {
	return &backend{
		runs: map[core.ID]core.Run{}, layers: map[core.ID][]core.Layer{}, events: map[core.Side][]core.Event{}, seqs: map[core.Side]int64{},
		more: make(chan struct{}), fail: map[string]error{}, delay: map[string]time.Duration{}, count: map[string]int{},
	}
}

// do changes the backend.
func (b *backend) do(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// calls is how often something was called since the last time.
func (b *backend) calls(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.count[name]
	b.count[name] = 0
	return n
}

// mostAtOnce is how many runs were read at once at most.
func (b *backend) mostAtOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// enter counts a call and does what was set for it.
func (b *backend) enter(ctx context.Context, name string) error {
	b.mu.Lock()
	b.count[name]++
	err, d := b.fail[name], b.delay[name]
	b.mu.Unlock()
	select {
	case <-time.After(d):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put puts a run, and now is when it was changed.
func (b *backend) put(r core.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.UpdatedAt = time.Now()
	r.JournalSeq++
	if r.CreatedAt.IsZero() {
		r.CreatedAt = time.Now()
	}
	b.runs[r.ID] = r
}

// emit adds an event.
func (b *backend) emit(e core.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.emitLocked(e)
}

func (b *backend) emitLocked(e core.Event) {
	e.Side = cmp.Or(e.Side, core.SideClient)
	b.seqs[e.Side]++
	e.Seq = b.seqs[e.Side]
	if e.At.IsZero() {
		e.At = time.Now()
	}
	b.events[e.Side] = append(b.events[e.Side], e)
	close(b.more)
	b.more = make(chan struct{})
}

// fall makes following fail, and whoever follows as well.
func (b *backend) fall(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail["follow"] = err
	close(b.more)
	b.more = make(chan struct{})
}

func (b *backend) Workflows(ctx context.Context, states []core.RunState, limit int, cursor string) (api.Page[core.Run], error) {
	name := "list"
	if len(states) > 0 {
		name = "recheck"
	}
	if err := b.enter(ctx, name); err != nil {
		return api.Page[core.Run]{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []core.Run
	for _, r := range b.runs {
		if len(states) == 0 || slices.Contains(states, r.State) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y core.Run) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID, x.ID))
	})
	if i := slices.IndexFunc(list, func(r core.Run) bool { return string(r.ID) == cursor }); i >= 0 {
		list = list[i+1:]
	}
	p := api.Page[core.Run]{Items: list, Warnings: b.warnings}
	if len(list) > limit {
		p.Items, p.Next = list[:limit], string(list[limit-1].ID)
	}
	return p, nil
}

func (b *backend) Workflow(ctx context.Context, id core.ID) (core.Workflow, error) {
	b.do(func() {
		b.atOnce++
		b.most = max(b.most, b.atOnce)
	})
	defer b.do(func() { b.atOnce-- })
	b.mu.Lock()
	r, ok := b.runs[id] // as it is when it is asked for: what is slow is old
	w := core.Workflow{Run: r, Layers: b.layers[id]}
	for _, a := range b.approvals {
		if a.RunID == id {
			w.Approvals = append(w.Approvals, a)
		}
	}
	b.mu.Unlock()
	if err := b.enter(ctx, "run"); err != nil {
		return core.Workflow{}, err
	}
	b.do(func() { b.count["run "+string(id)]++ })
	if !ok {
		return core.Workflow{}, core.Errorf(core.CodeNotFound, "there is no run %s", id)
	}
	return w, nil
}

func (b *backend) Approvals(ctx context.Context, _ bool) ([]core.Approval, error) {
	if err := b.enter(ctx, "approvals"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.approvals), nil
}

func (b *backend) Events(ctx context.Context, _ core.ID, since api.Since, follow bool, f func(core.Event) error) error {
	name := "events"
	if follow {
		name = "follow"
	}
	if err := b.enter(ctx, name); err != nil {
		return err
	}
	at := map[core.Side]int64{core.SideClient: since.Client, core.SideServer: since.Server}
	for {
		b.mu.Lock()
		var list []core.Event
		for side, events := range b.events {
			for _, e := range events {
				if e.Seq > at[side] {
					list = append(list, e)
				}
			}
		}
		more, err := b.more, error(nil)
		if follow {
			err = b.fail[name]
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(x, y core.Event) int { return x.At.Compare(y.At) })
		for _, e := range list {
			if !follow {
				b.do(func() { b.count["passed"]++ })
			}
			if err := f(e); err != nil {
				return err
			}
			at[e.Side] = e.Seq
			b.do(func() { b.count[name+"ed"]++ })
		}
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *backend) Audit(context.Context, api.AuditQuery) ([]core.AuditRow, error) { return nil, nil }

// screen is who owns the state.
type screen struct {
	feed *feed.Feed
	mu   sync.Mutex
	s    *state.State
	// applied is how many changes came since the last look, slow how long each
	// takes, atOnce whether two came at the same time.
	applied int
	slow    time.Duration
	busy    bool
	atOnce  bool
	each    func(*state.State) // after each change
}

// running starts a feed in a bubble; stop ends it.
func running(t *testing.T, o feed.Options) *screen {
	t.Helper()
	o.Clock = wall{}
	v := &screen{feed: feed.New(o), s: state.New(10_000)}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- v.feed.Run(ctx, v.apply) }()
	t.Cleanup(func() {
		why := errors.New("enough")
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Error(err)
		}
		if v.atOnce {
			t.Error("two changes at once")
		}
	})
	return v
}

func (v *screen) apply(c feed.Change) {
	v.mu.Lock()
	v.atOnce = v.atOnce || v.busy
	v.busy = true
	d := v.slow
	v.mu.Unlock()
	time.Sleep(d)
	v.mu.Lock()
	c(v.s)
	v.applied++
	v.busy = false
	if v.each != nil {
		v.each(v.s)
	}
	v.mu.Unlock()
}

// after lets time pass and looks at the state.
func (v *screen) after(d time.Duration, look func(s *state.State)) {
	time.Sleep(d)
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	look(v.s)
	v.applied = 0
}

func run(n int, st core.RunState) core.Run {
	return core.Run{ID: core.ID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)), Side: core.SideClient, State: st, TotalLayers: 2}
}

func (*backend) Halts(context.Context) ([]core.Halt, error) { return nil, nil }

func (*backend) HaltCalls(context.Context, core.Actor, string) ([]core.Halt, error) { return nil, nil }

func (*backend) ResumeCalls(context.Context, api.ResumeRequest) ([]core.Halt, error) { return nil, nil }
