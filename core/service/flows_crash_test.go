package service_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// dying is the store of a process that is killed right after its n-th write, which is
// stored, and of which it does not learn: from then on it writes nothing.
type dying struct {
	store.Store
	after int // 0: it lives
	kill  context.CancelFunc

	mu     sync.Mutex
	writes int
}

func (d *dying) write(f func() error) error {
	d.mu.Lock()
	d.writes++
	n := d.writes
	d.mu.Unlock()
	gone := core.Errorf(core.CodeStoreFailed, "this process was killed")
	if d.after > 0 && n > d.after {
		return gone
	}
	if err := f(); err != nil || n != d.after {
		return err
	}
	d.kill()
	return gone
}

func (d *dying) Commit(ctx context.Context, step store.Step) error {
	return d.write(func() error { return d.Store.Commit(ctx, step) })
}

func (d *dying) SaveFlowRuns(ctx context.Context, runs ...core.FlowRun) error {
	return d.write(func() error { return d.Store.SaveFlowRuns(ctx, runs...) })
}

func (d *dying) SetFlowVariables(ctx context.Context, key core.FlowKey, v core.FlowVariables) error {
	return d.write(func() error { return d.Store.SetFlowVariables(ctx, key, v) })
}

func (d *dying) Record(ctx context.Context, rows ...core.AuditRow) error {
	return d.write(func() error { return d.Store.Record(ctx, rows...) })
}

func (d *dying) Claim(ctx context.Context, id core.ID, runner string) (run core.Run, err error) {
	err = d.write(func() error { run, err = d.Store.Claim(ctx, id, runner); return err })
	return run, err
}

func (d *dying) Decide(ctx context.Context, dec core.Decision, r store.Renewal) (ap core.Approval, err error) {
	err = d.write(func() error { ap, err = d.Store.Decide(ctx, dec, r); return err })
	return ap, err
}

// Hooks of a flow, by what they do: each mark in the arguments differs from look to look.
var (
	crashPre = map[string][]string{
		"None":     nil,
		"Change":   {hookNode("change", `const p = context.request.params; return {params: {...p, arguments: {n: p.arguments.n + " by " + Math.random()}}}`)},
		"Block":    {hookNode("block", `const p = context.request.params; if (p.arguments.n.startsWith("b")) return {block: {message: "not b"}}; return {params: {...p, arguments: {n: p.arguments.n + " by " + Math.random()}}}`)},
		"Set":      {`"id":"set","type":"set","data":{"set":{"name":"count","scope":"flow","op":"add","value":1}}`, hookNode("change", `const p = context.request.params; return {params: {...p, arguments: {n: p.arguments.n + " by " + context.variables.count}}}`)},
		"Approval": {hookNode("change", `const p = context.request.params; return {params: {...p, arguments: {n: p.arguments.n + " by " + Math.random()}}}`), `"id":"ask","type":"approval","data":{"approval":{"message":"sure?"}}`},
	}
	crashPost = map[string][]string{
		"None":   nil,
		"Change": {hookNode("seen", `return {response: {...context.response, content: [{type: "text", text: context.response.content[0].text + " seen"}]}}`)},
	}
	marks = regexp.MustCompile(` by [-.\de]+`)
)

func hookNode(id, script string) string {
	text, err := json.Marshal(script)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`"id":%q,"type":"hook","data":{"hook":{"id":"h","blocking":true,"script":%s}}`, id, text)
}

// crashFlow is a flow with nodes in front of the call and behind it.
func crashFlow(pre, post []string) string {
	nodes := slices.Concat([]string{`"id":"start","type":"start","data":{}`}, pre, []string{`"id":"call","type":"mcp-call","data":{}`}, post, []string{`"id":"end","type":"end","data":{}`})
	var edges []string
	id := regexp.MustCompile(`^"id":("\w+")`)
	for i, n := range nodes {
		nodes[i] = `{"position":{"x":0,"y":0},` + n + `}`
		if i > 0 {
			edges = append(edges, fmt.Sprintf(`{"source":%s,"target":%s}`, id.FindStringSubmatch(nodes[i-1][len(`{"position":{"x":0,"y":0},`):])[1], id.FindStringSubmatch(n)[1]))
		}
	}
	return fmt.Sprintf(`{"id":"f","name":"f","workflowType":"tools/call","enabled":true,"variables":{"count":0},"nodes":[%s],"edges":[%s]}`, strings.Join(nodes, ","), strings.Join(edges, ","))
}

// crashKinds start what makes calls of up:write and up:read.
var crashKinds = map[string]func(ctx context.Context, c *client) error{
	"Script": func(ctx context.Context, c *client) error {
		_, err := c.Execute(ctx, api.ExecuteRequest{By: me, Wait: -1, Code: `const or = (p) => p.catch((e) => e.code);
			const a = await mcp.up.write({n: "a"}); const r = await mcp.up.read({n: "r"});
			return [a, r, ...await Promise.all([or(mcp.up.write({n: "b"})), mcp.up.write({n: "c"})])];`})
		return err
	},
	"DAG": func(ctx context.Context, c *client) error {
		task := func(id, tool string, deps ...string) core.TaskSpec {
			return core.TaskSpec{ID: id, Tool: "up:" + tool, Arguments: json.RawMessage(`{"n":"` + id + `"}`), DependsOn: deps, SafeToFail: id == "b"}
		}
		_, err := c.Execute(ctx, api.ExecuteRequest{By: me, Wait: -1, Tasks: []core.TaskSpec{
			task("a", "write"), task("r", "read", "a"), task("b", "write", "r"), task("c", "write", "r")}})
		return err
	},
	"Proxied": func(ctx context.Context, c *client) error {
		_, err := c.CallExposed(ctx, "up:write", api.OfferedCall{Args: json.RawMessage(`{"n":"b"}`), By: core.Actor{Who: "agent", Via: core.ViaMCP}, Peer: &api.Peer{ID: "p"}})
		return err
	},
}

// Whatever flows do before and behind calls, and on whichever way the calls come: a
// process that is killed after any single write leaves what the next one goes on with to
// the same end. Nothing with effects is called twice or with other arguments than were
// journaled, and no flow looks again at a call of which is kept what it made.
func TestFlows_KilledAtEveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops many runs at each of their commits")
	all := !skiptest.Race && skiptest.All(t)
	every := skiptest.Sized(t, 6, 2)
	if all {
		every = 1
	}
	for kind := range crashKinds {
		for pre := range crashPre {
			for post := range crashPost {
				if post == "None" && (pre == "None" || !all) {
					continue // a change behind the call tests all that its absence does
				}
				t.Run(kind+"/"+pre+post, func(t *testing.T) {
					t.Parallel()
					k := &flowCrash{t: t, kind: kind, flow: crashFlow(crashPre[pre], crashPost[post])}
					want, writes := k.run(0)
					if len(want.calls) == 0 && (pre != "Block" || kind != "Proxied") {
						t.Fatalf("nothing is called: %v", want)
					}
					for n := 1; n <= writes; n += every {
						if got, _ := k.run(n); got.String() != want.String() {
							t.Errorf("killed after write %d of %d: %v\nwant %v", n, writes, got, want)
						}
					}
					t.Logf("%d writes: %v", writes, want)
				})
			}
		}
	}
}

// flowCrash is a program whose calls meet a flow, and whose processes are killed.
type flowCrash struct {
	t          *testing.T
	kind, flow string
}

// flowEnd is how it ends, without the marks that differ from look to look.
type flowEnd struct {
	state  core.RunState
	result string
	calls  []string // that have effects
}

func (e flowEnd) String() string { return fmt.Sprintf("%s %s %v", e.state, e.result, e.calls) }

// run has the first process killed after its n-th write, and goes on until the end.
// writes are those of the first process.
func (k *flowCrash) run(n int) (end flowEnd, writes int) {
	t := k.t
	t.Helper()
	m := newMachine(t)
	log, url := countingUpstream(t)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(".pml/flows/f.json", k.flow)
	m.write(".pml.json", `{"mcpServers": {"up": {"type": "http", "url": "`+url+`"}}, "permissions": {"allow": ["up"]}, "expose": ["up"]}`)
	m.client().trusting().close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &dying{after: n, kill: cancel}
	c := m.clientOn(func(s store.Store) store.Store { d.Store = s; return d })
	kept := map[string][]core.ID{}
	err := crashKinds[k.kind](ctx, c)
	for life := 1; ; life++ {
		c.close()
		if life == 1 {
			writes = d.writes
		}
		if life > 12 {
			t.Fatalf("killed after %d: it does not end: %v", n, err)
		}
		c = m.client()
		run, ok := k.theRun(c)
		if life == 1 {
			k.keep(c, kept)
		}
		switch {
		case !ok && len(log()) > 0 && slices.ContainsFunc(log(), func(s string) bool { return strings.HasPrefix(s, "write") }):
			t.Fatalf("killed after %d: %v was called, and there is no run", n, log())
		case !ok && (life > 1 || n == 0): // refused before there was a run
			return k.ended(c, core.Run{State: "none", Error: core.AsError(err)}, log(), kept), writes
		case !ok:
			err = crashKinds[k.kind](c.ctx(), c)
		case run.State.Final():
			return k.ended(c, run, log(), kept), writes
		default:
			err = k.goOn(c, run, log())
		}
	}
}

// theRun is the run of the program; ok is false where there is none.
func (k *flowCrash) theRun(c *client) (core.Run, bool) {
	shown, _ := c.runsAndReads()
	if len(shown) == 0 {
		return core.Run{}, false
	}
	run, err := c.store.Run(c.ctx(), shown[0].ID)
	if err != nil || len(shown) > 1 {
		k.t.Fatalf("%v, %+v", err, shown)
	}
	return run, true
}

// keep notes the flow runs of the calls that are journaled with what flows made of them.
func (k *flowCrash) keep(c *client, kept map[string][]core.ID) {
	run, ok := k.theRun(c)
	if !ok {
		return
	}
	records, err := c.store.Journal(c.ctx(), run.ID, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, r := range records {
		if r.Passage != nil {
			for _, f := range r.Passage.Flows {
				kept[r.CallID] = append(kept[r.CallID], f.RunID)
			}
		}
	}
}

// goOn decides what waits, as a person would who can see what has been called.
func (k *flowCrash) goOn(c *client, run core.Run, log []string) error {
	list, err := c.store.Approvals(c.ctx(), store.ApprovalFilter{RunID: run.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	if err != nil {
		k.t.Fatal(err)
	}
	if len(list) == 0 {
		_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: run.ID, By: me, Wait: -1})
		return err
	}
	d := api.Decision{Approve: true, Checkpoint: list[0].ID}
	if list[0].Type == core.ApproveInDoubt {
		var about struct{ Arguments struct{ N string } }
		if err := json.Unmarshal(list[0].Context, &about); err != nil {
			k.t.Fatal(err)
		}
		d.Answer = &core.Answer{InDoubt: core.RunAgain}
		if slices.Contains(log, "write "+about.Arguments.N) {
			result, err := json.Marshal(about.Arguments.N + k.behind())
			if err != nil {
				k.t.Fatal(err)
			}
			d.Answer = &core.Answer{InDoubt: core.SkipResult, Result: result}
		}
	}
	_, err = c.decide(run.ID, d)
	return err
}

// behind is what the flow adds to a result.
func (k *flowCrash) behind() string {
	if strings.Contains(k.flow, " seen") {
		return " seen"
	}
	return ""
}

// ended checks what was called against what is kept.
func (k *flowCrash) ended(c *client, run core.Run, log []string, kept map[string][]core.ID) flowEnd {
	t := k.t
	t.Helper()
	defer c.close()
	end := flowEnd{state: run.State, result: string(run.Result)}
	if raw, ok := api.OfferedRaw(run.Result); ok {
		end.result = string(raw)
	}
	if run.Error != nil {
		end.result = string(run.Error.Code)
	}
	var texts []string
	for _, s := range regexp.MustCompile(`[abcr]( by [-.\de]+)? seen|"denied"|denied|[abcr] by [-.\de]+`).FindAllString(end.result, -1) {
		texts = append(texts, marks.ReplaceAllString(s, ""))
	}
	end.result = strings.Join(texts, ",")
	sent := map[string]bool{}
	if run.ID != "" {
		records, err := c.store.Journal(c.ctx(), run.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			var args struct{ N string }
			if err := json.Unmarshal([]byte(cmp.Or(string(r.Sent), string(r.Args), "{}")), &args); err != nil {
				t.Fatal(err)
			}
			sent[args.N] = true
		}
	}
	for _, call := range log {
		if text, ok := strings.CutPrefix(call, "write "); ok {
			end.calls = append(end.calls, marks.ReplaceAllString(text, ""))
			if !sent[text] {
				t.Errorf("%q was called, and the journal does not know it", call)
			}
		}
	}
	slices.Sort(end.calls)
	flows, err := c.store.FlowRuns(c.ctx(), store.FlowRunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		if ids, ok := kept[f.CallID]; ok && f.RunID == run.ID && !slices.Contains(ids, f.ID) {
			t.Errorf("the flow ran again (%s) for %s, of which is kept what it made (%v)", f.ID, f.CallID, ids)
		}
	}
	return end
}

// countingUpstream is a server whose tools give back what they get.
func countingUpstream(t *testing.T) (log func() []string, url string) {
	t.Helper()
	s := server.NewMCPServer("up", "1")
	var mu sync.Mutex
	var calls []string
	for tool, reads := range map[string]bool{"read": true, "write": false} {
		s.AddTool(mcp.NewTool(tool, mcp.WithReadOnlyHintAnnotation(reads), mcp.WithIdempotentHintAnnotation(reads), mcp.WithString("n")),
			func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, tool+" "+r.GetString("n", ""))
				return mcp.NewToolResultText(r.GetString("n", "")), nil
			})
	}
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}, web.URL + "/mcp"
}
