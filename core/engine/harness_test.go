package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

func TestMain(m *testing.M) {
	enginetest.Child()
	if len(os.Args) == 3 && os.Args[1] == mortalArg {
		os.Exit(mortalMain(os.Args[2]))
	}
	os.Exit(verify(m))
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	skiptest.Overlap()
	skiptest.InMemory()
	code := m.Run()
	if err := enginetest.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

const (
	hung   = enginetest.Hung
	blocks = enginetest.Blocks
)

// What the tests of this package have of the suite.
type (
	host      = enginetest.Host
	tool      = enginetest.Tool
	fakeModel = enginetest.Model
	byGoal    = enginetest.ByGoal
)

func newID() core.ID { return enginetest.NewID() }

// bench is a world whose surroundings are a file.
type bench struct {
	*enginetest.World
	dir string
	// wrap, when set, stands between a process and the store.
	wrap func(store.Store) store.Store
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	b.World = enginetest.NewWorld(t, nil)
	return b
}

func (b *bench) store() *bolt.Store {
	b.T.Helper()
	return openBolt(b.T, b.dir)
}

func openBolt(t testing.TB, dir string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(bolt.Options{Dir: dir, Clock: clock{}, NewID: newID, PID: os.Getpid(), Process: "test", LockTimeout: hung, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// process is one life of pml: an engine with its own store handle and runner.
type process struct {
	*enginetest.Process
	st store.Store
}

func (p *process) close() { p.Process.Close() }

func (b *bench) process() *process {
	b.T.Helper()
	var st store.Store = b.store()
	if b.wrap != nil {
		st = b.wrap(st)
	}
	return &process{b.ProcessOn(st), st}
}

func (b *bench) dag(p *process, tasks []core.TaskSpec, opts core.RunOptions) *engine.Handle {
	b.T.Helper()
	return b.start(p, core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks}, opts)
}

func (b *bench) code(p *process, source string, opts core.RunOptions) *engine.Handle {
	b.T.Helper()
	return b.start(p, b.Compile(source), opts)
}

func (b *bench) start(p *process, program core.Program, opts core.RunOptions) *engine.Handle {
	b.T.Helper()
	return b.Start(p.Process, program, opts)
}

// decide decides the only open approval of a type.
func (b *bench) decide(p *process, h *engine.Handle, typ core.ApprovalType, approve bool, answer *core.Answer) {
	b.T.Helper()
	b.Decide(p.st, h.ID, typ, approve, answer)
}

func task(id, tool string, deps ...string) core.TaskSpec { return enginetest.Task(id, tool, deps...) }

// handleOf waits until an engine runs a run that another one has started.
func (b *bench) handleOf(p *process, id core.ID) *engine.Handle {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), hung)
	defer cancel()
	changes, err := p.st.Watch(ctx)
	if err != nil {
		b.T.Fatal(err)
	}
	for {
		if h := p.Handle(id); h != nil {
			return h
		}
		select {
		case <-changes:
		case <-ctx.Done():
			b.T.Fatalf("nobody has started the run %s", id)
		}
	}
}
