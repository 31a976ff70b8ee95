package service

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/store"
)

// hookFlows are the hook flows that the workspace of a Service meets.
type hookFlows struct{ v *view }

func (f *hookFlows) load() (*env.Config, error) {
	return env.Load(env.LoadOptions{Workspace: f.v.o.Workspace, Home: f.v.o.Home, Environ: f.v.o.Environ})
}

// find returns a flow by its id, file or name.
func (f *hookFlows) find(name string) (*env.Config, *flow.Folder, *flow.Flow, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, nil, nil, err
	}
	home, work := cfg.HookFlows()
	var names []string
	for _, folder := range []*flow.Folder{work, home} {
		if found := folder.Flow(name); found != nil {
			return cfg, folder, found, nil
		}
		for _, each := range folder.Flows {
			names = append(names, each.ID)
		}
	}
	return nil, nil, nil, core.Errorf(core.CodeNotFound, "there is no flow %s%s", core.Visible(name, 80, false), core.Suggest(name, names)).WithNext("pml", "flows", "ls")
}

// Flows implements api.Flows.
func (f *hookFlows) Flows(context.Context) ([]api.Flow, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	trust, err := cfg.Home.TrustOf(cfg)
	if err != nil {
		return nil, err
	}
	home, work := cfg.HookFlows()
	out := []api.Flow{}
	for _, folder := range []*flow.Folder{home, work} {
		for _, each := range folder.Flows {
			out = append(out, flowOf(each, trust.Counts()))
		}
	}
	return out, nil
}

// Flow implements api.Flows.
func (f *hookFlows) Flow(_ context.Context, name string) (api.Flow, error) {
	cfg, folder, found, err := f.find(name)
	if err != nil {
		return api.Flow{}, err
	}
	trust, err := cfg.Home.TrustOf(cfg)
	out := flowOf(found, trust.Counts())
	out.Text = string(found.Text())
	used := map[string]string{}
	for _, n := range found.Nodes {
		file := ""
		if n.Manifest != nil {
			file = n.Manifest.File
		} else if h := n.Data.Hook; h != nil && folder.Modules[h.Module] != nil {
			file = folder.Modules[h.Module].File
		}
		if file != "" {
			used[file] = string(folder.Files()[file])
		}
	}
	out.Files = used
	return out, err
}

func flowOf(f *flow.Flow, trusted bool) api.Flow {
	out := api.Flow{
		ID: f.ID, Name: f.Name, Description: f.Description, Type: f.Type, File: f.File, Home: f.Home, Enabled: f.Enabled, Mode: string(f.Mode),
		Priority: f.Priority, Digest: f.Digest, Faults: f.Faults, State: "on",
	}
	switch {
	case len(f.Faults) > 0:
		out.State = "faults"
	case !f.Enabled:
		out.State = "off"
	case !f.Home && !trusted:
		out.State = "not trusted"
	case f.Mode == flow.Audit:
		out.State = "audit"
	}
	var file struct {
		Match json.RawMessage `json:"match"`
	}
	if json.Unmarshal(f.Text(), &file) == nil {
		out.Match = file.Match
	}
	for _, n := range f.Nodes {
		out.Nodes = append(out.Nodes, api.FlowNode{ID: n.ID, Type: n.Type, Label: n.Data.Label, Beside: !n.Blocking()})
	}
	for _, e := range f.Edges {
		out.Edges = append(out.Edges, api.FlowEdge{Source: e.Source, Target: e.Target, Label: e.Label})
	}
	return out
}

// SaveFlow implements api.Flows.
func (f *hookFlows) SaveFlow(_ context.Context, file api.FlowFile) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	return cfg.WriteFlow(env.FlowFile(file))
}

// FlowHistory implements api.Flows.
func (f *hookFlows) FlowHistory(ctx context.Context, name string, limit int) (api.FlowHistory, error) {
	_, _, found, err := f.find(name)
	if err != nil {
		return api.FlowHistory{}, err
	}
	key := core.FlowKey{Flow: found.ID}
	if !found.Home {
		key.Workspace = f.v.o.Workspace.Dir
	}
	runs, err := f.v.FlowRuns(ctx, store.FlowRunFilter{Key: key})
	var nodes []core.FlowNodeRun
	for _, r := range runs {
		nodes = append(nodes, r.Nodes...)
	}
	out := api.FlowHistory{Runs: runs[:min(len(runs), limit)], Nodes: statsOf(nodes)}
	if out.Runs == nil {
		out.Runs = []core.FlowRun{}
	}
	return out, err
}

// statsOf are the times of nodes that ran, in the order in which they first did.
func statsOf(runs []core.FlowNodeRun) []api.FlowNodeStats {
	out, times := []api.FlowNodeStats{}, map[string][]int64{}
	for _, n := range runs {
		if n.State == core.FlowSkipped || n.Type == flow.TypeCall || n.Type == flow.TypeEnd {
			continue
		}
		i := slices.IndexFunc(out, func(s api.FlowNodeStats) bool { return s.Node == n.Node })
		if i < 0 {
			i, out = len(out), append(out, api.FlowNodeStats{Node: n.Node, Type: n.Type})
		}
		s := &out[i]
		s.Count++
		if n.State == core.FlowBlocked {
			s.Blocked++
		}
		if n.State == core.FlowFailed || n.State == core.FlowTimeout {
			s.Failed++
		}
		times[n.Node] = append(times[n.Node], n.DurationUS)
	}
	slowest := -1
	for i := range out {
		t := times[out[i].Node]
		slices.Sort(t)
		out[i].P50, out[i].P95, out[i].Max = t[(len(t)-1)/2], t[(len(t)*95+99)/100-1], t[len(t)-1]
		if slowest < 0 || out[i].P95 > out[slowest].P95 {
			slowest = i
		}
	}
	if len(out) > 1 {
		out[slowest].Slowest = true
	}
	return out
}

// TryFlowOn implements api.Flows.
func (f *hookFlows) TryFlowOn(ctx context.Context, name string, call api.FlowCall) (api.FlowTrial, error) {
	_, _, found, err := f.find(name)
	if err != nil {
		return api.FlowTrial{}, err
	}
	t := hook.Trial{Flow: found, Request: flow.Request{Tool: call.Tool, Args: call.Args, Client: "cli"}}
	if len(call.Result) > 0 {
		t.Answer = &flow.Answer{Result: call.Result}
	}
	tried, matches, err := f.v.TryFlow(ctx, t)
	if err != nil {
		return api.FlowTrial{}, err
	}
	if len(tried.List) > 0 {
		call.Result, call.Args = tried.List, nil
	}
	return trialOf(call, tried, matches), nil
}

func trialOf(call api.FlowCall, tried hook.Tried, matches bool) api.FlowTrial {
	out := api.FlowTrial{FlowCall: call, Matches: matches, Verdict: "passed", Sent: tried.Args, Nodes: tried.Run.Nodes, Reason: tried.Run.Reason, Unknown: tried.Unknown}
	if out.Nodes == nil {
		out.Nodes = []core.FlowNodeRun{}
	}
	changed := slices.ContainsFunc(tried.Run.Nodes, func(n core.FlowNodeRun) bool { return n.Change != nil })
	if a := tried.Answer; a != nil {
		out.Given, out.Agent = a.Result, a.Agent
		if a.Err != nil {
			out.Verdict, out.Reason = "failed", a.Err.Message
			if a.Err.Code == core.CodeDenied {
				out.Verdict = "blocked"
			}
			return out
		}
	}
	switch {
	case tried.Run.State == core.FlowBlocked || tried.Run.State == core.FlowFailed || tried.Run.State == core.FlowTimeout: // in audit mode
		if out.Verdict = "failed"; tried.Run.State == core.FlowBlocked {
			out.Verdict = "blocked"
		}
	case len(tried.Asks) > 0:
		out.Verdict, out.Reason = "asked", tried.Asks[0].Message
	case changed:
		out.Verdict = "changed"
	}
	return out
}

// TryFlowSince implements api.Flows.
func (f *hookFlows) TryFlowSince(ctx context.Context, name string, since time.Time) (api.FlowReplay, error) {
	out := api.FlowReplay{Since: since, Counts: map[string]int{}, Trials: []api.FlowTrial{}}
	_, _, found, err := f.find(name)
	if err != nil {
		return out, err
	}
	var nodes []core.FlowNodeRun
	filter := store.RunFilter{Workspace: f.v.o.Workspace.Dir, Limit: 200}
	for {
		runs, err := f.v.o.Store.Runs(ctx, filter)
		if err != nil {
			return out, err
		}
		for _, run := range runs {
			if run.CreatedAt.Before(since) {
				out.Nodes = statsOf(nodes)
				return out, nil
			}
			trials, err := f.tryRun(ctx, found, run)
			if err != nil && core.CodeOf(err) != core.CodeNotFound { // removed meanwhile
				return out, err
			}
			nodes = append(nodes, counted(&out, trials, false)...)
		}
		if len(runs) < filter.Limit {
			out.Nodes = statsOf(nodes)
			return out, nil
		}
		filter.Before = runs[len(runs)-1].ID
	}
}

// TryFlowOnRun implements api.Flows.
func (f *hookFlows) TryFlowOnRun(ctx context.Context, name string, id core.ID) (api.FlowReplay, error) {
	out := api.FlowReplay{RunID: id, Counts: map[string]int{}, Trials: []api.FlowTrial{}}
	_, _, found, err := f.find(name)
	if err != nil {
		return out, err
	}
	run, err := f.v.o.Store.Run(ctx, id)
	if err != nil {
		return out, err
	}
	trials, err := f.tryRun(ctx, found, run)
	out.Nodes = statsOf(counted(&out, trials, true))
	return out, err
}

// counted adds trials to a replay, and returns what their nodes did.
func counted(out *api.FlowReplay, trials []api.FlowTrial, passed bool) (nodes []core.FlowNodeRun) {
	for _, t := range trials {
		out.Calls++
		out.Counts[t.Verdict]++
		if nodes = append(nodes, t.Nodes...); passed || t.Verdict != "passed" {
			out.Trials = append(out.Trials, t)
		}
	}
	return nodes
}

// tryRun puts the calls of a run of which the journal has the arguments through a flow.
func (f *hookFlows) tryRun(ctx context.Context, found *flow.Flow, run core.Run) (out []api.FlowTrial, err error) {
	records, err := f.v.o.Store.Journal(ctx, run.ID, 0)
	if err != nil {
		return nil, err
	}
	last := map[string]int{}
	for i, r := range records {
		if len(r.Args) > 0 && r.CallID != "" && r.Tool != core.SleepTool && r.Tool != core.CodeTool {
			last[r.CallID] = i
		}
	}
	view := f.v.machine.Redactor(f.v.o.Workspace.Dir)
	for i, r := range records {
		if at, ok := last[r.CallID]; !ok || at != i {
			continue
		}
		t := hook.Trial{Flow: found, Request: flow.Request{
			RunID: run.ID, CallID: r.CallID, Tool: r.Tool, Args: r.Args, Client: gate.ClientOf(engine.Call{ID: r.CallID}.Of(&run)), Run: flow.RunInfo{Name: run.Name, Kind: string(run.Kind)},
		}}
		if len(r.Result) > 0 && r.Outcome == core.OutcomeSuccess {
			t.Answer = &flow.Answer{Result: resultOf(r.Result)}
		}
		tried, matches, err := f.v.TryFlow(ctx, t)
		if err != nil {
			return out, err
		}
		if !matches {
			continue
		}
		trial := trialOf(api.FlowCall{Tool: r.Tool, Args: view.JSON(r.Args)}, tried, matches)
		trial.RunID, trial.Sent, trial.Given, trial.Agent = string(run.ID), view.JSON(trial.Sent), nil, nil
		out = append(out, trial)
	}
	return out, nil
}

// resultOf is a journaled result in the shape in which a server gives it.
func resultOf(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	var s string
	result := map[string]any{}
	if json.Unmarshal(raw, &s) == nil {
		text = s
	} else if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		result["structuredContent"] = raw
	}
	result["content"] = []map[string]string{{"type": "text", "text": text}}
	out, err := json.Marshal(result)
	if err != nil {
		return nil
	}
	return out
}

// TryFlow runs a flow on a call that is not made, or on the list of a server's tools, and
// keeps nothing of it. The tool's
// server is started if it may be, for what it says of the tool. matches says whether the
// flow looks at such a call.
func (c *view) TryFlow(ctx context.Context, t hook.Trial) (tried hook.Tried, matches bool, err error) {
	if c.hooks == nil {
		return tried, false, core.Errorf(core.CodeInvalidArguments, "this process runs no flows")
	}
	t.Request.Workspace, t.Request.Owner = c.o.Workspace.Dir, c.scope.Owner
	h, err := c.host(c.o.Workspace.Dir)
	if err != nil {
		return tried, false, err
	}
	unknown := ""
	if t.Flow.Type == flow.ListTools {
		t.Tools, err = h.OwnTools(ctx, t.Request.Tool)
	} else {
		t.Request.Annotations, unknown, err = h.Annotations(ctx, t.Request.Tool)
	}
	if err != nil {
		return tried, false, err
	}
	tried, err = c.hooks.Try(ctx, t)
	tried.Unknown = unknown
	return tried, t.Flow.Meets(t.Request), err
}
