package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
)

// process is a child as the parent sees it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte   // what the child wrote, a line each; closed at its end
	limits Limits        // of the pool
	cpu    time.Duration // of a turn
	line   atomic.Int64  // the longest line that is read
	stderr tail
	done   chan struct{} // closed when the child was waited for
	quit   chan struct{} // closed by kill: nobody reads lines any more
	once   sync.Once
	served int   // scripts; the pool's
	broke  error // why reading ended, unless the child did; set before lines is closed
}

// startProcess starts a child in a process group of its own.
func startProcess(o Options) (*process, error) {
	if len(o.Command) == 0 {
		return nil, core.Errorf(core.CodeInternal, "the sandbox has no command to start")
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...) //nolint:noctx // a child outlives the request that started it; stop ends it
	// Results must not depend on the machine's zone; a VM has one thread, and
	// its Go heap is small and bounded by itself.
	cmd.Env = append([]string{"TZ=UTC", "GOMAXPROCS=2", "GOGC=400", "GOTRACEBACK=none"}, o.Env...)
	isolate(cmd)
	p := &process{cmd: cmd, lines: make(chan []byte, 1), limits: o.Limits, done: make(chan struct{}), quit: make(chan struct{})}
	cmd.Stderr = &p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, notStarted(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, notStarted(err)
	}
	p.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, notStarted(err)
	}
	confine(cmd.Process.Pid, o.Limits)
	p.bound(o.Limits)
	go p.read(stdout)
	return p, nil
}

// bound sets what the next script of the child may use.
func (p *process) bound(l Limits) {
	p.cpu = l.CPU
	p.line.Store(l.lineBytes())
}

// read hands on the child's lines, none longer than the limits allow.
func (p *process) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := readLine(r, p.line.Load())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.broke = err
			}
			break
		}
		select {
		case p.lines <- line:
			continue
		case <-p.quit:
		}
		break
	}
	close(p.lines)
	// Nothing more will be read: a child that goes on writing must not live.
	p.signal()
	_ = p.cmd.Wait()
	close(p.done)
}

// kill ends the child and all it started, without waiting.
func (p *process) kill() {
	p.once.Do(func() {
		close(p.quit)
		p.signal()
		_ = p.stdin.Close()
	})
}

// ask sends a request and returns the reply. Whatever goes wrong kills the
// child, except an error that the child says it survives.
func (p *process) ask(ctx context.Context, r *request) (*reply, error) {
	var buf bytes.Buffer
	if err := writeRequest(&buf, r); err != nil {
		p.kill()
		return nil, core.Errorf(core.CodeInternal, "a request of the sandbox could not be written as JSON: %w", err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		// A child that takes no request gives no reply either: await says so.
		_, _ = p.stdin.Write(buf.Bytes())
	}()
	rep, err := p.await(ctx, p.cpu+grace)
	if err != nil || rep.Kind == replyError && !rep.Alive {
		p.kill()
	}
	<-written
	if err != nil {
		return nil, err
	}
	if rep.Kind == replyError {
		return rep, rep.Err
	}
	return rep, nil
}

// renew has the child make a new VM, and reports whether it may serve another
// script.
func (p *process) renew() bool {
	// The next script could not have all that it may use.
	if resident, _, known := processMemory(p); known && resident > p.limits.MemoryBytes {
		return false
	}
	rep, err := p.ask(context.Background(), &request{Op: opEnd})
	return err == nil && rep.Kind == replyFresh
}

// await reads lines until one is a reply. The deadline counts from the last
// sign of life that only our own side of the child can give; a turn that got too
// little of a processor gives one, too. A child that cannot even do that ends
// here, but what it stood in line for a processor, where the system tells, is not
// its own time: a busy machine is no fault of the script.
func (p *process) await(ctx context.Context, limit time.Duration) (*reply, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var stood time.Duration // that was made up for
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return nil, p.ended()
			}
			rep, err := decodeReply(line)
			switch {
			case err != nil:
				return nil, crashed("wrote something that is not its protocol", err)
			case rep.Kind == replyReady, rep.Kind == replyProgress:
				timer.Reset(limit)
			default:
				return rep, nil
			}
		case <-timer.C:
			if more := min(starved(p.cmd.Process.Pid), maxStretch*limit) - stood; more > limit/20 {
				stood += more
				timer.Reset(more)
				continue
			}
			return nil, core.Errorf(core.CodeSandboxTimeout, "the script did not answer within %v and was stopped (limits.cpu): look for a loop that does not end", p.cpu)
		case <-ctx.Done():
			return nil, core.Errorf(core.CodeCancelled, "the script was stopped: %w", context.Cause(ctx))
		}
	}
}

// ended says why a child closed its end.
func (p *process) ended() error {
	p.kill()
	<-p.done
	words := p.stderr.String()
	// A dying Go process has no other way to say that it was refused memory.
	if bytes.Contains([]byte(words), []byte("out of memory")) || bytes.Contains([]byte(words), []byte("cannot allocate memory")) {
		return core.Errorf(core.CodeSandboxMemory, "the script needs more memory than the limit of %d MiB: work on smaller pieces", p.limits.MemoryBytes>>20)
	}
	state := p.cmd.ProcessState.String()
	switch {
	case words != "":
		// A process that fails by itself says why.
		return crashed("ended", errors.New(state+": "+core.Visible(words, 400, false)))
	case p.broke != nil:
		return crashed("ended", fmt.Errorf("%w (%s)", p.broke, state))
	}
	return crashed("ended without a word", lostError{state})
}

// ErrLost is the cause of a core.CodeSandboxCrashed of which the script is no
// cause: the child could not be started, or ended without a word, as one does
// that is killed. The same request may succeed in another child.
var ErrLost = errors.New("the sandbox's process was lost")

// lostError says how a child was lost.
type lostError struct{ how string }

// Error implements error.
func (e lostError) Error() string { return e.how }

// Is makes it an ErrLost.
func (lostError) Is(target error) bool { return target == ErrLost }

func notStarted(err error) *core.Error {
	return crashed("could not be started", lostError{err.Error()})
}

func crashed(what string, err error) *core.Error {
	return core.Errorf(core.CodeSandboxCrashed, "the sandbox's process %s (%w)", what, err)
}

// tail keeps the first 4 KiB of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write keeps what fits and never fails, so that the child is not held up.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b[:min(len(b), 4<<10-len(t.buf))]...)
	return len(b), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
