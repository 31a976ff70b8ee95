//go:build unix

package server_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/skiptest"
)

var (
	kills = flag.Int("kills", 0, "how often TestServer_KilledAtRandomMoments kills a server, in all; 0: as usual")
	seed  = flag.Uint64("seed", 0, "of its random moments; 0: another one each time")
)

// TestServer_KilledAtRandomMoments kills a server with -9 at random moments and
// starts it again, over and over. The runs go on by themselves; where a call is
// in doubt somebody answers who can see what the tool's server has done. Each
// run completes with the right result, each of its calls that has a side effect
// ran once, and a reader of the events sees each of them once and in order.
//
//	go test ./cmd/pml/e2e/server -run KilledAtRandomMoments -v -args -kills 1000 -seed 7
//
// Scenario 16.
func TestServer_KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	all := cmp.Or(*kills, skiptest.Sized(t, 10, 100))
	t.Logf("-kills %d -seed %d", all, s)
	for i, kind := range []string{"bbolt", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			k := newKilling(t, kind, rand.New(rand.NewPCG(s, uint64(i))))
			want := (all + 1 - i) / 2
			for n := 0; k.kills < want && !t.Failed(); n++ {
				k.complete(newProgram(n), want)
			}
			if !t.Failed() {
				k.check()
			}
			t.Logf("%d kills, %d calls in doubt, %d other approvals, %d runs, %d events", k.kills, k.doubts, k.asked, len(k.programs), len(k.reader.all()))
		})
	}
}

// program is one run that is to complete.
type program struct {
	name     string // in all of its calls
	req      api.ExecuteRequest
	id       core.ID
	journal  []core.Record // as it was seen last
	workflow core.Workflow // at its end
}

// killing is a machine whose server is killed.
type killing struct {
	*pmltest.Machine
	kind     string
	serve    []string // its command line
	random   *rand.Rand
	client   *client.Client
	reader   *eventReader
	programs []*program

	kills, doubts, asked int
}

func newKilling(t *testing.T, kind string, random *rand.Rand) *killing {
	t.Helper()
	k := &killing{Machine: pmltest.NewMachine(t, pmltest.AllowRec()), kind: kind, random: random, serve: []string{"serve"}}
	k.Setenv("PML_NO_AUTOSTART", "1")
	if kind == "postgres" {
		k.serve = append(k.serve, shared(t)...)
	}
	p := k.Start(k.serve...)
	k.Listening(p)
	rec, ok := daemon.ReadRecord(k.Home)
	if !ok {
		t.Fatal("the server did not say where it is")
	}
	o := client.Options{Socket: rec.Socket, Workspace: k.WS, Clock: pmltest.Clock{}, Limits: client.Limits{Away: time.Hour}}
	k.client = mustClient(t, o)
	k.reader = readEvents(t, mustClient(t, o))
	if _, err := k.client.Execute(t.Context(), api.ExecuteRequest{Code: "return 1", Detach: true, Wait: pmltest.Patience}); err != nil {
		t.Fatal(err)
	}
	pmltest.WaitFor(t, "the reader reads", func() bool { return len(k.reader.all()) > 0 })
	k.stop(p)
	return k
}

func mustClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// stop ends a server as its owner would.
func (k *killing) stop(p *pmltest.Process) {
	k.T.Helper()
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(0)
	k.settled()
}

// settled waits until the tools' servers are gone: they hold a lock while they
// live. From then on the log says what was done.
func (k *killing) settled() {
	k.T.Helper()
	l := flock.New(k.Log + ".alive")
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	if ok, err := l.TryLockContext(ctx, time.Millisecond); !ok {
		k.T.Fatalf("what a killed server had started lives on: %v", err)
	}
	if err := l.Close(); err != nil {
		k.T.Fatal(err)
	}
}

// complete lets one program run, and kills the server as long as it was not
// killed often enough.
func (k *killing) complete(prog *program, want int) {
	k.T.Helper()
	k.programs = append(k.programs, prog)
	for {
		p := k.Start(k.serve...)
		ctx, cancel := context.WithCancel(context.Background())
		moment, when := (<-chan struct{})(nil), "never"
		if k.kills < want {
			moment, when = k.moment(ctx, p)
		}
		done := make(chan error, 1)
		go func() {
			err := errors.New("the test has failed")
			defer func() { done <- err }()
			err = k.person(ctx, p, prog)
		}()
		select {
		case err := <-done:
			cancel()
			if err != nil {
				k.T.Fatalf("after %d kills, the next one %s: %v\n%s", k.kills, when, err, p.Err.String())
			}
			k.stop(p)
			return
		case <-moment:
			k.kill(p)
			cancel()
			<-done // what it says of a server that was killed means nothing
		}
		if k.T.Failed() {
			k.T.Logf("after %d kills, the last one %s", k.kills, when)
			return
		}
	}
}

// moment is closed at a random moment in the life of a server.
func (k *killing) moment(ctx context.Context, p *pmltest.Process) (<-chan struct{}, string) {
	kind, n, d := k.random.IntN(8), 1+k.random.IntN(30), time.Duration(k.random.Int64N(int64(100*time.Millisecond)))
	come := make(chan struct{})
	reached, when := func() bool { return true }, "after "+d.String()
	switch {
	case kind == 1 || kind == 2:
		reached = func() bool { return strings.Contains(p.Err.String(), "listening on ") }
		when = "when it has listened for " + d.String()
	case kind > 2:
		// Most of them while something is done.
		before := k.lines()
		d /= 50
		reached = func() bool { return k.lines() >= before+n }
		when = fmt.Sprintf("%s after the line %d of the log", d, before+n)
	}
	go func() {
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for !reached() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(d):
			close(come)
		case <-ctx.Done():
		}
	}()
	return come, when
}

// lines are those of the log of calls.
func (k *killing) lines() int {
	raw, _ := os.ReadFile(k.Log) // not there before the first call
	return bytes.Count(raw, []byte("\n"))
}

// kill kills the server, and mostly with it all that it has started.
func (k *killing) kill(p *pmltest.Process) {
	k.T.Helper()
	k.kills++
	if k.random.IntN(4) > 0 {
		p.Kill()
	} else {
		p.Signal(syscall.SIGKILL)
		p.Wait()
	}
	k.settled()
}

// person starts a program, or finds it started, and decides what it asks for
// until it has ended.
func (k *killing) person(ctx context.Context, p *pmltest.Process, prog *program) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pmltest.Patience-10*time.Second, errors.New("nothing more happens"))
	defer cancel()
	for !strings.Contains(p.Err.String(), "listening on ") {
		select {
		case <-p.Ended():
			return errors.New("the server ended")
		case <-time.After(time.Millisecond):
		}
	}
	// The same request again finds the run that it had started before.
	r, err := k.client.Execute(ctx, prog.req)
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	if prog.id != "" && r.WorkflowID != prog.id {
		return fmt.Errorf("the same request started the run %s and then %s", prog.id, r.WorkflowID)
	}
	prog.id = r.WorkflowID
	if err := k.look(ctx, prog); err != nil {
		return err
	}
	for turn := 0; ; turn++ {
		w, err := k.client.Workflow(ctx, prog.id)
		if err != nil {
			return fmt.Errorf("look at the run: %w", err)
		}
		if w.State.Final() {
			prog.workflow = w
			if w.State != core.RunComplete {
				return fmt.Errorf("%s is %s: %w", prog.name, w.State, w.Error)
			}
			return k.look(ctx, prog)
		}
		for _, ap := range w.Approvals {
			if ap.StateAt(time.Now()) != core.ApprovalOpen {
				continue
			}
			if err := k.decide(ctx, ap); err != nil {
				return err
			}
		}
		select {
		case <-k.reader.news:
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: the run is %s, %+v", context.Cause(ctx), w.State, pmltest.States(w))
		}
	}
}

// look reads the journal. What was seen of it before must still be there.
func (k *killing) look(ctx context.Context, prog *program) error {
	now, err := k.client.Records(ctx, prog.id, 0)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	for i, was := range prog.journal {
		if i >= len(now) || !bytes.Equal(mustJSON(was), mustJSON(now[i])) {
			return fmt.Errorf("the journal had %s, and has %s", mustJSON(prog.journal), mustJSON(now))
		}
	}
	prog.journal = now
	return nil
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a type that came from JSON
	}
	return raw
}

// decide answers a question: a permission is given, and a call in doubt runs
// again if its server has not seen it; otherwise its result is what it was.
func (k *killing) decide(ctx context.Context, ap core.Approval) error {
	d := &api.Decision{Approve: true, Checkpoint: ap.ID}
	switch ap.Type {
	case core.ApproveTool:
		k.asked++
		if ap.Tool != "rec:danger" {
			return fmt.Errorf("asked whether %s may run", ap.Tool)
		}
	case core.ApproveInDoubt:
		k.doubts++
		var asked struct {
			Arguments map[string]string `json:"arguments"`
		}
		if err := json.Unmarshal(ap.Context, &asked); err != nil {
			return fmt.Errorf("the context %s: %w", ap.Context, err)
		}
		tool := strings.TrimPrefix(ap.Tool, "rec:")
		if !hurts(tool) {
			return fmt.Errorf("asked about %s, which may run again", ap.Tool)
		}
		d.Answer = &core.Answer{InDoubt: core.RunAgain}
		if k.ran(tool, asked.Arguments) > 0 {
			d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: assumed(tool, asked.Arguments)}
		}
	default:
		return fmt.Errorf("asked for %s: %s", ap.Type, ap.Description)
	}
	if ap.ID[0]%4 == 0 {
		return k.decideByCommand(ctx, ap, d)
	}
	_, err := k.client.Continue(ctx, api.ContinueRequest{ID: ap.RunID, Decision: d})
	if err != nil {
		return fmt.Errorf("decide about %s: %w", ap.Type, err)
	}
	return nil
}

// decideByCommand decides as somebody at a terminal does.
func (k *killing) decideByCommand(ctx context.Context, ap core.Approval, d *api.Decision) error {
	args := []string{"continue", string(ap.RunID), "--checkpoint", string(ap.ID), "--wait", "0s"}
	switch {
	case d.Answer == nil:
		args = append(args, "--approve")
	case d.Answer.InDoubt == core.RunAgain:
		args = append(args, "--answer", "run-again")
	default:
		args = append(args, "--answer", "skip", "--result", string(d.Answer.Result))
	}
	p := k.Start(args...)
	select {
	case <-p.Ended():
	case <-ctx.Done():
		p.Signal(syscall.SIGKILL)
		p.Wait()
		return ctx.Err()
	}
	if o := p.Wait(); o.Exit != 0 && o.Exit != 8 && o.Exit != 124 {
		return fmt.Errorf("pml %q: exit %d: %s", args, o.Exit, o.Stderr)
	}
	return nil
}

// hurts reports whether a tool may not run twice.
func hurts(tool string) bool { return tool == "inc" || tool == "write" || tool == "danger" }

// ran is how often a call has reached its server.
func (k *killing) ran(tool string, args map[string]string) int {
	n := 0
	for _, e := range k.Entries() {
		var got map[string]string
		if e.Event == "start" && e.Tool == tool && json.Unmarshal(e.Args, &got) == nil && bytes.Equal(mustJSON(got), mustJSON(args)) {
			n++
		}
	}
	return n
}

// assumed is what the recorder answers to the first call of its kind.
func assumed(tool string, args map[string]string) json.RawMessage {
	switch tool {
	case "inc":
		return mustJSON(map[string]any{"key": args["key"], "count": 1})
	case "write":
		return mustJSON(map[string]any{"path": args["path"], "bytes": len(args["content"])})
	}
	return mustJSON(map[string]any{"done": args["x"]})
}

// eventReader follows the events over all restarts.
type eventReader struct {
	news chan struct{} // something happened that a person may want to see

	mu     sync.Mutex
	events []core.Event
}

// readEvents reads events from the first on until the test ends.
func readEvents(t *testing.T, c *client.Client) *eventReader {
	t.Helper()
	r := &eventReader{news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done, begun := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		close(begun)
		err := c.Events(ctx, "", api.Since{}, true, r.take)
		if ctx.Err() == nil {
			t.Errorf("the stream of events ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-begun
	return r
}

func (r *eventReader) take(e core.Event) error {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	if e.Type == core.EventApprovalRequested || e.Type == core.EventWorkflowComplete {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
	return nil
}

// all is what was read so far.
func (r *eventReader) all() []core.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.events)
}
