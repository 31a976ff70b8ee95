package sandbox

import (
	"bufio"
	"io"
	"sync/atomic"
	"time"

	"modernc.org/quickjs"

	"github.com/casys-ai/pml/core"
)

// maxRequest bounds a line of the parent, and the values that follow it.
const maxRequest = 1 << 30

// progressEvery is how often a child says that a long batch goes on, or that a
// turn is late for want of a processor.
const progressEvery = 200 * time.Millisecond

// child serves one parent.
type child struct {
	out     *bufio.Writer
	analyze Analyzer
	eof     atomic.Bool
	vm      *jsVM // prepared ahead, or running a script; nil after an evaluation
	running bool
	said    time.Time
}

// ChildMain serves a child's stdin and stdout until EOF and returns the exit
// status. It is all that the hidden subcommand does. EOF in the middle of a
// script stops it: a parent that died leaves no child behind.
func ChildMain(in io.Reader, out io.Writer, analyze Analyzer) int {
	c := &child{out: bufio.NewWriterSize(out, 64<<10), analyze: analyze}
	requests := make(chan incoming)
	stop := make(chan struct{})
	defer close(stop)
	go c.read(in, requests, stop)
	if !c.prepare() || c.reply(&reply{Kind: replyReady}) != nil {
		return 1
	}
	for {
		r, ok := c.next(requests)
		switch {
		case !ok && c.vm != nil:
			c.vm.close()
			return 0
		case !ok:
			return 0
		case r.bad != nil:
			_ = c.reply(&reply{Kind: replyError, Err: core.Errorf(core.CodeSandboxCrashed, "the sandbox got a request that it cannot read: %w", r.bad)})
			return 1
		case c.vm == nil && !c.prepare(), !c.serve(r.request):
			return 1
		}
	}
}

// spare is how long a child that has evaluated waits before it makes its next VM: others
// that evaluate at the same moment have the processor until then.
const spare = 4 * time.Millisecond

// next waits for a request. A child without a VM makes one meanwhile; when it cannot,
// it has said so, and there is no next request.
func (c *child) next(requests <-chan incoming) (r incoming, ok bool) {
	if c.vm == nil {
		quiet := time.NewTimer(spare)
		defer quiet.Stop()
		select {
		case r, ok = <-requests:
			return r, ok
		case <-quiet.C:
			if !c.prepare() {
				return r, false
			}
		}
	}
	r, ok = <-requests
	return r, ok
}

// incoming is a request, or what is wrong with it.
type incoming struct {
	*request
	bad error
}

// read hands on requests until the parent closes.
func (c *child) read(in io.Reader, requests chan<- incoming, stop <-chan struct{}) {
	defer close(requests)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		req, bad, err := readRequest(r)
		if err != nil {
			c.eof.Store(true)
			return
		}
		select {
		case requests <- incoming{req, bad}:
		case <-stop:
			return
		}
	}
}

// prepare makes the next VM, while nobody waits for it.
func (c *child) prepare() bool {
	vm, err := newVM(systemClocks(), watch{closed: c.eof.Load, late: c.late})
	if err != nil {
		_ = c.reply(&reply{Kind: replyError, Err: core.Errorf(core.CodeSandboxCrashed, "the sandbox could not start: %w", err)})
		return false
	}
	c.vm, c.running = vm, false
	return true
}

func (c *child) reply(r *reply) error {
	c.said = time.Now()
	if err := writeLine(c.out, r); err != nil {
		return err
	}
	return c.out.Flush()
}

// progress says that the child lives, unless it has said so lately.
func (c *child) progress() error {
	if time.Since(c.said) <= progressEvery {
		return nil
	}
	return c.reply(&reply{Kind: replyProgress})
}

// late tells a parent that cannot see how little of a processor the child got
// not to give it up. A parent that is gone is noticed by reading.
func (c *child) late() { _ = c.progress() }

// fail reports an error; alive says whether the child can serve more.
func (c *child) fail(e *core.Error, alive bool) bool {
	return c.reply(&reply{Kind: replyError, Err: e, Alive: alive}) == nil && alive
}

// serve handles one request and says whether the child goes on.
func (c *child) serve(r *request) bool {
	c.said = time.Now()
	switch {
	case c.running != (r.Op == opDeliver || r.Op == opEnd):
		return c.fail(core.Errorf(core.CodeSandboxCrashed, "the sandbox got %q at the wrong time", r.Op), false)
	case r.Op == opCompile:
		return c.compile(r)
	case r.Op == opEval:
		return c.eval(r)
	case r.Op == opEnd:
		c.vm.close()
		return c.prepare() && c.reply(&reply{Kind: replyFresh}) == nil
	case r.Op == opOpen:
		c.running = true
		if e := c.vm.start(r); e != nil {
			return c.fail(e, false)
		}
		return c.turn()
	}
	for _, d := range r.Deliveries {
		if e := c.vm.deliver(d); e != nil {
			return c.fail(e, false)
		}
		if c.progress() != nil {
			return false
		}
	}
	return c.turn()
}

func (c *child) turn() bool {
	t, e := c.vm.take()
	if e != nil {
		return c.fail(e, false)
	}
	return c.reply(&reply{Kind: replyTurn, Turn: t}) == nil
}

func (c *child) compile(r *request) bool {
	c.vm.limit(r.Limits)
	body, sm, err := strip(r.Source, r.File)
	if err != nil {
		return c.fail(core.AsError(err), true)
	}
	c.vm.sm = sm
	out := &reply{Kind: replyCompiled, Plan: &core.Plan{Kind: core.KindCode}}
	analyzed := make(chan error, 1)
	go func() {
		var err error
		if c.analyze != nil {
			out.Plan, err = c.analyze(body, sm.toSource)
		}
		out.Script = joinMap(body, sm)
		analyzed <- err
	}()
	// esbuild accepts a little more than the engine; better now than later.
	f, e := c.vm.load(body)
	err = <-analyzed
	if e != nil {
		return c.fail(e, e.Code == core.CodeSyntax)
	}
	f.Free()
	if err != nil {
		return c.fail(core.AsError(err), true)
	}
	return c.reply(out) == nil
}

// eval runs code that calls nothing in a VM of its own.
func (c *child) eval(r *request) bool {
	value, e := c.evaluate(r)
	out := &reply{Kind: replyValue, Value: value, Logs: c.vm.turn.Logs}
	if e != nil {
		alive := e.Code == core.CodeScript || e.Code == core.CodeSyntax || e.Code == core.CodeEmptyCode
		out = &reply{Kind: replyError, Err: e, Alive: alive, Logs: c.vm.turn.Logs}
	}
	if c.reply(out) != nil || e != nil && !out.Alive {
		return false
	}
	c.vm.close()
	c.vm = nil
	return true
}

func (c *child) evaluate(r *request) ([]byte, *core.Error) {
	v := c.vm
	v.limit(r.Limits)
	if e := v.begin(r.Now, r.Seed, nil, nil, 0); e != nil {
		return nil, e
	}
	if e := v.enter("pure", r.Frozen); e != nil {
		return nil, e
	}
	for name, value := range r.Globals {
		if e := v.enter("global", name, string(value), r.Frozen); e != nil {
			return nil, e
		}
	}
	f, e := c.loadPure(r)
	if e != nil {
		return nil, e
	}
	defer f.Free()
	if e := v.settle(v.clocks.after(v.limits.CPU), "run", f); e != nil {
		return nil, e
	}
	switch {
	case v.turn.Err != nil:
		return nil, v.turn.Err
	case !v.turn.Done:
		return nil, core.Errorf(core.CodeScript, "the code waits for something that never happens: here it can call no tool and set no timer")
	}
	return v.turn.Result, nil
}

// loadPure makes the function of an evaluation.
func (c *child) loadPure(r *request) (f quickjs.Value, e *core.Error) {
	v := c.vm
	if r.Script != "" {
		return v.loadScript(r.Script)
	}
	if r.Expression {
		v.mappings, v.sm = "", nil
		return v.load("return (\n" + r.Source + "\n);")
	}
	body, sm, err := strip(r.Source, r.File)
	if err != nil {
		return f, core.AsError(err)
	}
	v.sm = sm
	return v.load(body)
}
