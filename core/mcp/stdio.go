package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/jsonrpc"
)

// ServeStdio answers one client whose messages come by lines, until in ends, the
// context does, or out takes no more. It writes nothing but JSON-RPC. Calls which
// wait keep none from being answered. Then calls have Options.Grace to end before
// their contexts do; runs go on or are taken up by others.
func (e *Edge) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	scope, ok := e.scope(ctx)
	if !ok {
		return core.Errorf(core.CodePermissionDenied, "nobody is known to be calling")
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w := &lineWriter{w: out, broken: make(chan struct{})}
	main := &stream{send: w.write, log: e.o.Log}
	p := &pipe{
		edge: e, session: newSession("stdio", holderOf(scope), e.o.Clock.Now()), out: w, main: main,
		in: jsonrpc.NewLineReader(in, int(e.o.MaxMessage)), turn: make(chan struct{}, idleReaders), over: make(chan struct{}), ended: make(chan error, 1),
	}
	p.session.introduced = e.o.Introduced
	stop, _ := e.serveMain(calls, p.session, main) // nobody else has this session
	go p.serve(calls)
	var err error
	select {
	case err = <-p.ended:
	case <-w.broken: // the client has gone without closing its side of in
	case <-ctx.Done():
	}
	p.finish(e.o.Grace, cancel)
	stop()
	p.session.leave()
	if err != nil {
		return core.Errorf(core.CodeInternal, "the client's messages cannot be read: %w", err)
	}
	return nil
}

// pipe is one client over stdio. One goroutine reads; when it has a call it leaves
// reading to another one and makes the call itself, since to wake somebody for that
// takes longer than most of what pml does for a call.
type pipe struct {
	edge    *Edge
	session *session
	out     *lineWriter
	main    *stream // what belongs to no call
	in      *jsonrpc.LineReader
	failed  error // why there is no more to read; of whoever reads

	turn  chan struct{} // to read, for one of those that are idle
	over  chan struct{} // closed when there is nothing more to read
	ended chan error    // why
	once  sync.Once     // of both

	mu     sync.Mutex
	idle   int // goroutines that wait for their turn
	closed bool
	wg     sync.WaitGroup
}

// idleReaders is how many goroutines wait at most, with the stacks that they have
// grown, for calls to come.
const idleReaders = 16

// serve reads, and answers what it has read.
func (p *pipe) serve(ctx context.Context) {
	defer core.Recover(p.edge.o.Log, "messages were read", func(err *core.Error) { p.end(err) })
	for {
		r, err := p.next(ctx)
		if r == nil || !p.handOver(ctx) {
			if r != nil {
				r.done()
			}
			p.end(err)
			return
		}
		p.answer(r)
		if !p.awaitTurn() {
			return
		}
	}
}

// end is the end of reading.
func (p *pipe) end(err error) {
	p.once.Do(func() {
		close(p.over)
		p.ended <- err
	})
}

// answer answers a request that was counted.
func (p *pipe) answer(r *taken) {
	defer p.wg.Done()
	defer p.survive(r.message)
	p.say(p.edge.serveRequest(r, p.stream()))
}

// stream is where what belongs to a message goes before its answer.
func (p *pipe) stream() *stream { return &stream{send: p.out.write, log: p.edge.o.Log} }

// survive answers a message with which something panicked. It is deferred.
func (p *pipe) survive(m *message) {
	if v := recover(); v != nil {
		p.reply(p.edge.panicked("a message was handled", v, m))
	}
}

// handOver lets another goroutine read; false when no more calls are taken.
func (p *pipe) handOver(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Add(1)
	if p.idle > 0 {
		p.idle--
		p.turn <- struct{}{}
	} else {
		go p.serve(ctx)
	}
	return true
}

// awaitTurn waits until this goroutine is to read; false when it is not needed.
func (p *pipe) awaitTurn() bool {
	p.mu.Lock()
	needed := p.idle < idleReaders && !p.closed
	if needed {
		p.idle++
	}
	p.mu.Unlock()
	if !needed {
		return false
	}
	select {
	case <-p.turn:
		return true
	case <-p.over:
		return false
	}
}

// next returns the next request that takes time, let in already, so that what
// cancels it finds it; nil when there is none. What takes no time is answered
// meanwhile, so that answers to pipelined messages keep their order.
func (p *pipe) next(ctx context.Context) (*taken, error) {
	for p.failed == nil {
		line, err := p.in.Next()
		if _, ok := errors.AsType[*jsonrpc.LongLineError](err); ok {
			p.reply(jsonrpc.Refuse(nil, mcp.INVALID_REQUEST, "the message is too long"))
			continue
		}
		p.failed = err
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if r := p.handle(ctx, line); r != nil {
			return r, nil
		}
	}
	if errors.Is(p.failed, io.EOF) {
		return nil, nil
	}
	return nil, p.failed
}

// handle answers a message if that takes no time, and lets any other in.
func (p *pipe) handle(ctx context.Context, line []byte) *taken {
	defer p.survive(&message{})
	m, bad := parse(line)
	if bad == nil && m.isRequest() && p.edge.slow(m) {
		var r *taken
		if r, bad = p.edge.take(ctx, p.session, m); bad == nil {
			return r
		}
	}
	if bad != nil {
		p.reply(bad)
		return nil
	}
	p.say(p.edge.dispatch(ctx, p.session, m, p.stream()))
	return nil
}

// say writes the answer to a message, if there is one.
func (p *pipe) say(answer *jsonrpc.Response) {
	if answer != nil {
		p.main.flush() // notifications from before come before
		p.reply(answer)
	}
}

// reply writes an answer. A client that is gone is noticed by the writer.
func (p *pipe) reply(answer *jsonrpc.Response) { _ = p.out.write(answer.Encode()) }

// finish lets calls end for a while, then cancels them and waits for that.
func (p *pipe) finish(grace time.Duration, cancel context.CancelFunc) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(ended)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	cancel()
	<-ended
}

// lineWriter writes messages as lines, one at a time. After a write that failed
// there are no more, as half a line may be out.
type lineWriter struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	broken chan struct{} // closed when err is set
}

func (l *lineWriter) write(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if _, l.err = l.w.Write(append(message, '\n')); l.err != nil {
		close(l.broken)
	}
	return l.err
}

// Fixed is a Scope for Options where every call is made for the same scope, as
// over stdio.
func Fixed(scope api.Scope) func(context.Context) (api.Scope, bool) {
	return func(context.Context) (api.Scope, bool) { return scope, true }
}
