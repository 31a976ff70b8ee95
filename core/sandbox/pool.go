package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// idleTime is how long a child is kept that nobody uses.
const idleTime = 2 * time.Minute

// Pool starts children and keeps some ready. It is safe for concurrent use.
type Pool struct {
	o    Options
	warm int
	room *room

	mu       sync.Mutex
	closed   bool
	idle     []*process
	live     map[*process]bool
	starting int
	// cleaning counts the children that are on their way back, waiting those who
	// wait for one, or for one that starts; back is signalled when one of them has
	// arrived, or has not.
	cleaning, waiting int
	back              *sync.Cond
	trim              *time.Timer
	later             *time.Timer    // starts children after a run has begun
	group             sync.WaitGroup // of starts in the background
}

// NewPool makes a pool; no child starts before Warm or the first use.
func NewPool(o Options) *Pool {
	o.Limits = o.Limits.withDefaults()
	p := &Pool{o: o, warm: max(0, o.Warm), live: map[*process]bool{}}
	if o.Warm == 0 {
		p.warm = 1
	}
	p.back = sync.NewCond(&p.mu)
	p.room = newRoom(p.o, p.drop)
	return p
}

// SetMemory sets Options.Memory anew.
func (p *Pool) SetMemory(bytes int64) { p.room.bound(bytes) }

// Children counts the children that live, ready ones included.
func (p *Pool) Children() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live)
}

// Warm starts children in the background, up to Options.Warm, and returns at once.
func (p *Pool) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.warm == 0 {
		return
	}
	for len(p.idle)+p.starting+p.cleaning < p.warm {
		p.starting++
		p.group.Add(1)
		go p.startIdle()
	}
	p.armTrim()
}

// warmDelay leaves a short run the processor: to start a child costs more than
// such a run.
const warmDelay = 30 * time.Millisecond

// warmLater is Warm after a while.
func (p *Pool) warmLater() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.warm == 0 {
		return
	}
	if p.later == nil {
		p.later = time.AfterFunc(warmDelay, p.Warm)
		return
	}
	p.later.Reset(warmDelay)
}

// startIdle starts one child for the idle list. That it fails is found out,
// and said, by whoever needs a child next.
func (p *Pool) startIdle() {
	defer p.group.Done()
	c, err := startProcess(p.o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	p.back.Broadcast()
	switch {
	case err != nil:
	case p.closed:
		c.kill()
		p.group.Go(func() { <-c.done })
	default:
		p.live[c] = true
		p.idle = append(p.idle, c)
	}
}

// armTrim ends children that stay idle. p.mu is held.
func (p *Pool) armTrim() {
	if p.trim == nil {
		p.trim = time.AfterFunc(idleTime, p.dropIdle)
		return
	}
	p.trim.Reset(idleTime)
}

func (p *Pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		p.forget(c)
	}
	p.idle = nil
}

// forget kills a child and waits for it in the background. p.mu is held.
func (p *Pool) forget(c *process) {
	if !p.live[c] {
		return
	}
	delete(p.live, c)
	p.group.Go(func() { c.kill(); <-c.done })
}

// take returns a child that serves nobody, and has another one started.
func (p *Pool) take() (*process, error) {
	p.mu.Lock()
	p.await()
	if p.closed {
		p.mu.Unlock()
		return nil, core.Errorf(core.CodeCancelled, "the sandbox is closed")
	}
	// The one that came back first: those after it may still be making their next VM.
	for len(p.idle) > 0 {
		c := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		select {
		case <-c.done: // died while idle
			p.forget(c)
			continue
		default:
		}
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := startProcess(p.o)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.kill()
		return nil, core.Errorf(core.CodeCancelled, "the sandbox is closed")
	}
	p.live[c] = true
	return c, nil
}

// await waits for a child that is about to be idle, as long as there is one for
// everybody who waits: to start one takes longer. p.mu is held.
func (p *Pool) await() {
	for !p.closed && len(p.idle) == 0 && p.waiting < p.cleaning+p.starting {
		p.waiting++
		p.back.Wait()
		p.waiting--
	}
}

// drop ends a child.
func (p *Pool) drop(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
}

// put gives back a child that is as good as new.
func (p *Pool) put(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(c)
}

// keep is put. p.mu is held.
func (p *Pool) keep(c *process) {
	most := max(1, p.warm, p.o.Keep)
	if p.o.Reuse {
		most = max(most, reused)
	}
	if p.closed || len(p.idle) >= most {
		p.forget(c)
		return
	}
	p.idle = append(p.idle, c)
	p.armTrim()
}

const (
	// reused is how many children that have served are kept for the next scripts.
	reused = 2
	// maxServed is how many scripts a child serves.
	maxServed = 100
)

// recycle makes a child whose script is over ready for the next one, in the
// background. One that has served enough, holds much memory, or does not manage
// it, ends.
func (p *Pool) recycle(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.served++; p.closed || !p.live[c] || c.served >= maxServed {
		p.forget(c)
		return
	}
	p.cleaning++
	p.group.Go(func() {
		fresh := c.renew()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cleaning--
		if fresh {
			p.keep(c)
		} else {
			p.forget(c)
		}
		p.back.Broadcast()
	})
}

// Close kills all children and waits for them. Requests that are under way
// fail. It may be called again.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, t := range []*time.Timer{p.trim, p.later} {
		if t != nil {
			t.Stop()
		}
	}
	for c := range p.live {
		p.forget(c)
	}
	p.idle = nil
	p.back.Broadcast()
	p.mu.Unlock()
	p.group.Wait()
	return nil
}

// maxTries is how many children a request is given that needs no session.
const maxTries = 3

// once serves one request that needs no session: in another child when the
// first is lost.
func (p *Pool) once(ctx context.Context, r *request) (*reply, error) {
	for try := 1; ; try++ {
		rep, err := p.try(ctx, r)
		if try == maxTries || !errors.Is(err, ErrLost) {
			return rep, err
		}
	}
}

func (p *Pool) try(ctx context.Context, r *request) (*reply, error) {
	pl := &place{}
	defer p.room.leave(pl)
	if err := p.room.enter(ctx, pl); err != nil {
		return nil, err
	}
	c, err := p.take()
	if err != nil {
		return nil, err
	}
	c.bound(r.Limits)
	rep, err := c.ask(ctx, r)
	if err != nil && (rep == nil || !rep.Alive) {
		p.drop(c)
		return rep, err
	}
	p.put(c)
	return rep, err
}

// Compile strips types and analyses, in a child. Its errors: CodeEmptyCode,
// CodeTooLarge, CodeSyntax with the place in the user's source, and the
// sandbox's own, such as CodeSandboxTimeout.
func (p *Pool) Compile(ctx context.Context, source, file string) (Compiled, error) {
	if err := p.checkSource(source); err != nil {
		return Compiled{}, err
	}
	rep, err := p.once(ctx, &request{Op: opCompile, Limits: p.o.Limits, Source: source, File: file})
	if err != nil {
		return Compiled{}, err
	}
	if rep.Kind != replyCompiled {
		return Compiled{}, crashed("gave the wrong answer", errWrongReply)
	}
	return Compiled{Script: rep.Script, Plan: rep.Plan}, nil
}

func (p *Pool) checkSource(source string) error {
	if strings.TrimSpace(source) == "" {
		return errEmpty()
	}
	if len(source) > p.o.Limits.SourceBytes {
		return core.Errorf(core.CodeTooLarge, "the code is %d bytes, more than the limit of %d: put data into input, and long work into tools", len(source), p.o.Limits.SourceBytes)
	}
	return nil
}

// Eval evaluates code that calls nothing. Errors are those of Compile, and CodeScript
// for an exception.
func (p *Pool) Eval(ctx context.Context, r EvalRequest) (Evaluated, error) {
	if r.Script == "" {
		if err := p.checkSource(r.Source); err != nil {
			return Evaluated{}, err
		}
	}
	rep, err := p.once(ctx, &request{
		Op: opEval, Limits: p.o.Limits.of(Start{CPU: r.CPU}), Source: r.Source, Script: r.Script,
		Expression: r.Expression, Globals: r.Globals, Frozen: r.Frozen, Seed: r.Seed, Now: millis(r.Now),
	})
	switch {
	case err != nil && rep == nil:
		return Evaluated{}, err
	case err != nil:
		return Evaluated{Logs: rep.Logs}, err
	case rep.Kind != replyValue:
		return Evaluated{}, crashed("gave the wrong answer", errWrongReply)
	case len(rep.Value) == 0:
		rep.Value = core.Null
	}
	return Evaluated{Value: rep.Value, Logs: rep.Logs}, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
