package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

const addsN = `{"id":"f","name":"f","workflowType":"tools/call","enabled":true,"nodes":[
{"id":"s","type":"start","position":{"x":0,"y":0},"data":{}},{"id":"c","type":"mcp-call","position":{"x":0,"y":0},"data":{}},{"id":"e","type":"end","position":{"x":0,"y":0},"data":{}},
{"id":"h","type":"hook","position":{"x":0,"y":0},"data":{"hook":{"id":"h","blocking":true,"script":"return {params: {...context.request.params, arguments: {n: 2}}}"}}}],
"edges":[{"source":"s","target":"h"},{"source":"h","target":"c"},{"source":"c","target":"e"}]}`

// What flows made of an offered call is kept with it, however it is kept: whoever looks at
// it later sees what the program passed and what was sent. Each has one flow run.
func TestThrough_FlowsKept(t *testing.T) {
	t.Parallel()
	m, u := exposing(t, exposeAll)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(".pml/flows/f.json", addsN)
	c := m.client().trusting()
	for _, tool := range []string{"up:read", "up:write", "up:ask"} {
		r, err := c.through(tool, `{"n":1}`)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if r.Paused == nil {
			continue
		}
		c.close()
		c = m.client()
		if _, err := c.decide(r.Paused.WorkflowID, api.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
	}
	c.close()
	c = m.client()
	shown, reads := c.runsAndReads()
	for _, run := range slices.Concat(shown, reads) {
		records, err := c.Records(c.ctx(), run.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind == core.RecordSettled && (string(r.Args) != `{"n":1}` || string(r.Sent) != `{"n":2}` || r.Passage == nil || len(r.Passage.Flows) != 1) {
				t.Errorf("%s: %s, sent %s, %+v", r.Tool, r.Args, r.Sent, r.Passage)
			}
		}
	}
	runs, err := c.store.FlowRuns(c.ctx(), store.FlowRunFilter{})
	if err != nil || len(runs) != 3 || u.calls.Load() != 3 || len(shown) != 2 || len(reads) != 1 {
		t.Errorf("%+v, %v: %d calls, %d runs and %d lists", runs, err, u.calls.Load(), len(shown), len(reads))
	}
	for _, r := range runs {
		if r.State != core.FlowOK || r.Client != "agent" {
			t.Errorf("%+v", r)
		}
	}
}

// Where pml dies before it has written what flows did with a call, the journal says how
// that ended; what waits for a person still does.
func TestFlowRuns_Killed(t *testing.T) {
	t.Parallel()
	m, _ := exposing(t, exposeAll)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(".pml/flows/f.json", addsN)
	c := m.client().trusting()
	ended := map[core.ID]core.FlowState{}
	for _, d := range []*api.Decision{{Approve: true}, {Approve: false}, nil} {
		r, err := c.through("up:ask", `{"n":1}`)
		if err != nil {
			t.Fatal(err)
		}
		ended[r.Paused.WorkflowID] = core.FlowPending
		if d == nil {
			continue
		}
		if ended[r.Paused.WorkflowID] = core.FlowDenied; d.Approve {
			ended[r.Paused.WorkflowID] = core.FlowOK
		}
		if _, err := c.decide(r.Paused.WorkflowID, *d); err != nil {
			t.Fatal(err)
		}
	}
	c.close()
	c = m.client()
	runs, err := c.store.FlowRuns(c.ctx(), store.FlowRunFilter{})
	if err != nil || len(runs) != 3 {
		t.Fatalf("%v: %+v", err, runs)
	}
	for i := range runs { // as they were before the ends of the calls
		runs[i].State, runs[i].Reason, runs[i].Nodes = core.FlowPending, "", runs[i].Nodes[:2]
		runs[i].Nodes[1].State = core.FlowPending
	}
	gone := runs[0]
	gone.ID, gone.RunID, gone.StartedAt = "gone", "gone", gone.StartedAt.Add(-2*time.Hour)
	ended["gone"] = core.FlowCancelled
	if err := c.store.SaveFlowRuns(c.ctx(), append(runs, gone)...); err != nil {
		t.Fatal(err)
	}
	h, err := c.FlowHistory(c.ctx(), "f", 10)
	if err != nil || len(h.Runs) != 4 {
		t.Fatalf("%v: %+v", err, h.Runs)
	}
	for _, r := range h.Runs {
		if want := ended[r.RunID]; r.State != want || r.Nodes[1].State != want || want == core.FlowDenied && r.Reason == "" {
			t.Errorf("want %s: %+v", want, r)
		}
	}
}

// What a flow makes of a call is tried before the flow is trusted, and an untrusted folder
// starts no server: the tools count as reading of which a person has accepted that, and of
// the others the trial says that it does not know.
func TestTryFlow_Untrusted(t *testing.T) {
	t.Parallel()
	m, _ := exposing(t, exposeAll)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.client().trusting().close()
	m.write("pml.lock", `{"version": 1, "servers": {"up": {"readonly": ["read"]}}}`)
	m.write(".pml/flows/f.json", strings.Replace(addsN, `"enabled":true`, `"enabled":false,"match":{"where":"!annotations.read_only"}`, 1))
	c := m.client()
	try := func(tool string) api.FlowTrial {
		trial, err := c.TryFlowOn(c.ctx(), "f", api.FlowCall{Tool: tool, Args: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		return trial
	}
	if r := try("up:read"); r.Matches || r.Unknown != "" {
		t.Errorf("a tool that reads, as a person has accepted: %+v", r)
	}
	if r := try("up:write"); !r.Matches || !strings.Contains(r.Unknown, "not trusted") {
		t.Errorf("a tool of which nothing is known: %+v", r)
	}
}
