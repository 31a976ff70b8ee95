package process

import (
	"context"
	"slices"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/tui"
	"github.com/casys-ai/pml/tui/state"
)

// terminalFlows are the hook flows of this machine for the terminal.
type terminalFlows struct {
	half      *service.Service
	home      env.Home
	workspace env.Workspace
	load      func() (*env.Config, error)
	kept      *keptRuns
}

var _ tui.Flows = terminalFlows{}

// keptRuns are the flow runs as they were read last: the terminal reads them again each
// second while somebody looks, and 1,000 take 30 ms.
type keptRuns struct {
	mu   sync.Mutex
	runs map[core.FlowKey][]core.FlowRun
}

// newRuns is how many runs are read where the others are known.
const newRuns = 50

// of reads the runs of a flow, newest first.
func (k *keptRuns) of(key core.FlowKey, read func(limit int) ([]core.FlowRun, error)) ([]core.FlowRun, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh, err := read(newRuns)
	if err != nil {
		return nil, err
	}
	if len(fresh) == newRuns {
		last, known := fresh[newRuns-1].ID, k.runs[key]
		at := slices.IndexFunc(known, func(r core.FlowRun) bool { return r.ID == last })
		if at < 0 || slices.ContainsFunc(known[at+1:], func(r core.FlowRun) bool { return r.State == core.FlowPending }) {
			if fresh, err = read(0); err != nil {
				return nil, err
			}
		} else {
			fresh = append(fresh, known[at+1:]...)
			fresh = fresh[:min(len(fresh), core.KeptFlowRuns)]
		}
	}
	k.runs[key] = fresh
	return slices.Clone(fresh), nil
}

// ReadFlows reads the flows of the home and the workspace, and what they did.
func (t terminalFlows) ReadFlows(ctx context.Context) (state.Flows, error) {
	cfg, err := t.load()
	if err != nil {
		return state.Flows{}, err
	}
	trust, err := t.home.TrustOf(cfg)
	if err != nil {
		return state.Flows{}, err
	}
	out := state.Flows{Dir: t.workspace.Dir, Trusted: trust.Counts(), Runs: map[core.FlowKey][]core.FlowRun{}}
	out.Home, out.Workspace = cfg.HookFlows()
	for _, folder := range []*flow.Folder{out.Home, out.Workspace} {
		for _, f := range folder.Flows {
			key := core.FlowKey{Flow: f.ID}
			if !f.Home {
				key.Workspace = t.workspace.Dir
			}
			if out.Runs[key], err = t.kept.of(key, func(limit int) ([]core.FlowRun, error) {
				return t.half.FlowRuns(ctx, store.FlowRunFilter{Key: key, Limit: limit})
			}); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// CallFlowRuns are the flow runs of one call.
func (t terminalFlows) CallFlowRuns(ctx context.Context, run core.ID, call string) ([]core.FlowRun, error) {
	runs, err := t.half.FlowRuns(ctx, store.FlowRunFilter{RunID: run})
	return slices.DeleteFunc(runs, func(r core.FlowRun) bool { return r.CallID != call }), err
}

// TryFlow runs the text of a flow on a call that is not made.
func (t terminalFlows) TryFlow(ctx context.Context, file state.FlowFile, text []byte, call state.FlowCall) (state.FlowTried, error) {
	cfg, err := t.load()
	if err != nil {
		return state.FlowTried{}, err
	}
	f := folderOf(cfg, file).ParseOne(file.Name, text)
	trial := hook.Trial{Flow: f, Request: flow.Request{Tool: call.Tool, Args: call.Args, Client: "cli"}}
	if len(call.Result) > 0 {
		trial.Answer = &flow.Answer{Result: call.Result}
	}
	tried, matches, err := t.half.TryFlow(ctx, trial)
	if err != nil {
		return state.FlowTried{}, err
	}
	out := state.FlowTried{Run: tried.Run, Args: tried.Args, Asks: tried.Asks, Matches: matches, List: tried.List}
	if a := tried.Answer; a != nil {
		out.Result = a.Result
		if a.Err != nil {
			out.Refused = a.Err.Message
		}
	}
	return out, nil
}

func folderOf(cfg *env.Config, file state.FlowFile) *flow.Folder {
	home, workspace := cfg.HookFlows()
	if file.Home {
		return home
	}
	return workspace
}

// EnableFlow enables or disables a flow in its file.
func (t terminalFlows) EnableFlow(_ context.Context, file state.FlowFile, enable bool) error {
	cfg, err := t.load()
	if err != nil {
		return err
	}
	was := folderOf(cfg, file).Files()[file.Name]
	text, err := flow.Switched(was, enable)
	if err != nil {
		return err
	}
	return cfg.WriteFlow(env.FlowFile{Home: file.Home, Name: file.Name, Text: text, Was: was})
}

// SaveFlow writes a flow's file, if it is still what was read.
func (t terminalFlows) SaveFlow(_ context.Context, file state.FlowFile, text, was []byte) error {
	cfg, err := t.load()
	if err != nil {
		return err
	}
	return cfg.WriteFlow(env.FlowFile{Home: file.Home, Name: file.Name, Text: text, Was: was})
}
