package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

var pool *sandbox.Pool

func TestMain(m *testing.M) {
	enginetest.Child()
	pool = sandbox.NewPool(hook.PoolOptions(enginetest.ChildCommand(), 0))
	skiptest.InMemory()
	code := m.Run()
	_ = pool.Close()
	os.Exit(code)
}

// memory is a store that keeps things in memory.
type memory struct {
	mu    sync.Mutex
	runs  map[core.ID]core.FlowRun
	vars  map[core.FlowKey]core.FlowVariables
	audit []core.AuditRow
	// onSet is called before variables are set.
	onSet func()
}

func newMemory() *memory {
	return &memory{runs: map[core.ID]core.FlowRun{}, vars: map[core.FlowKey]core.FlowVariables{}}
}

func (m *memory) SaveFlowRuns(_ context.Context, runs ...core.FlowRun) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range runs {
		m.runs[r.ID] = r
	}
	return nil
}

func (m *memory) FlowRuns(_ context.Context, f store.FlowRunFilter) (out []core.FlowRun, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		if f.Match(m.runs[id]) {
			out = append(out, m.runs[id])
		}
	}
	return out, nil
}

func (m *memory) FlowVariables(_ context.Context, key core.FlowKey) (core.FlowVariables, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vars[key], nil
}

func (m *memory) SetFlowVariables(_ context.Context, key core.FlowKey, v core.FlowVariables) error {
	m.mu.Lock()
	on := m.onSet
	m.mu.Unlock()
	if on != nil {
		on()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Version != m.vars[key].Version+1 {
		return store.FasterFlow(key)
	}
	m.vars[key] = v
	return nil
}

func (m *memory) Record(_ context.Context, rows ...core.AuditRow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.audit = append(m.audit, rows...)
	return nil
}

// wall is the clock of the machine.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

const secret = "s3cret-value-of-a-key"

// rig is a Runner with its store.
type rig struct {
	*hook.Runner
	t     testing.TB
	store *memory
	n     atomic.Int64
}

func newRig(t testing.TB, change ...func(*hook.Options)) *rig {
	t.Helper()
	r := &rig{t: t, store: newMemory()}
	o := hook.Options{
		Store: r.store, Sandbox: pool, Clock: wall{}, NewID: func() core.ID { return core.ID(fmt.Sprintf("run%06d", r.n.Add(1))) },
		Secrets: func(string) func(string) string {
			return func(s string) string { return strings.ReplaceAll(s, secret, "«KEY»") }
		},
	}
	for _, f := range change {
		f(&o)
	}
	r.Runner = hook.New(o)
	r.Patient()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// text is JSON of anything.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// node is a node of a flow in JSON; behind: it stands behind the call.
type node struct {
	id     string
	kind   string
	data   string
	behind bool
	beside bool // nobody waits for it
}

// script is a hook that the call waits for.
func script(id, code string, behind bool) node {
	return node{id: id, kind: "hook", data: `"hook":{"id":"h","blocking":true,"script":` + text(code) + `}`, behind: behind}
}

// line is the text of a flow whose nodes stand in a line; head are members of it.
func line(id, head string, nodes ...node) string {
	all := []string{`{"id":"start","type":"start","data":{}}`}
	var edges []string
	at := "start"
	join := func(n node) {
		all = append(all, fmt.Sprintf(`{"id":%q,"type":%q,"data":{%s}}`, n.id, n.kind, n.data))
		label := ""
		if at == "choose" {
			label = `,"label":"true"`
		}
		edges = append(edges, fmt.Sprintf(`{"source":%q,"target":%q%s}`, at, n.id, label))
		if !n.beside {
			at = n.id
		}
	}
	for _, n := range nodes {
		if !n.behind {
			join(n)
		}
	}
	join(node{id: "mcp", kind: "mcp-call"})
	for _, n := range nodes {
		if n.behind {
			join(n)
		}
	}
	join(node{id: "end", kind: "end"})
	if head != "" {
		head += ","
	}
	return fmt.Sprintf(`{"id":%q,"name":%q,%s"nodes":[%s],"edges":[%s]}`, id, id, head, strings.Join(all, ","), strings.Join(edges, ","))
}

// setOf is a set of flows of a trusted workspace, by their order.
func setOf(t testing.TB, texts ...string) *flow.Set {
	t.Helper()
	files := map[string][]byte{}
	for i, text := range texts {
		files[fmt.Sprintf("f%d.json", i)] = []byte(text)
	}
	folder := flow.Parse(files, false)
	for _, f := range folder.Flows {
		if len(f.Faults) > 0 {
			t.Fatalf("%s: %v\n%s", f.ID, f.Faults, f.Text())
		}
	}
	return flow.NewSet(nil, folder, true)
}

func request(args string) flow.Request {
	return flow.Request{RunID: "r1", CallID: "c1", Tool: "files:write", Args: json.RawMessage(args), Client: "cli", Owner: "me", Workspace: "/work"}
}

// call is what becomes of a call that is answered with answer: what was sent, what
// came back, and the error.
func (r *rig) call(set *flow.Set, args, answer string) (sent string, back flow.Answer, err error) {
	r.t.Helper()
	req := request(args)
	p, err := r.Before(context.Background(), set, req)
	if err != nil {
		return "", flow.Answer{}, err
	}
	if p != nil && len(p.Args) > 0 {
		req.Args = p.Args
	}
	a := flow.Answer{Result: json.RawMessage(answer)}
	if p != nil && len(p.Response) > 0 {
		a.Result = p.Response
	}
	return string(req.Args), r.After(context.Background(), set, req, p, a), nil
}

// runs are the records that were written, in their order.
func (r *rig) runs() []core.FlowRun {
	r.t.Helper()
	_ = r.Close()
	out, _ := r.store.FlowRuns(context.Background(), store.FlowRunFilter{})
	return out
}
