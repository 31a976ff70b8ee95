package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/suggest"
	"github.com/casys-ai/pml/store"
)

const (
	// suggestTime bounds how long servers may take to name their tools. Those that
	// are slower are named as problems.
	suggestTime = 10 * time.Second
	// pastRuns is how many successful runs are looked at: the newest.
	pastRuns = 100
	// startConfidence is the least confidence of a DAG that starts, paused.
	startConfidence = 0.3
	// accepted begins the label of a run that was suggested; such a label says
	// nothing about what was wanted.
	accepted = "accept suggestion: "
)

// intend answers an execute that says only what is wanted, or which suggestion it
// takes. Nothing runs by itself: with a validation of layers a suggestion that is
// complete and destroys nothing starts, and waits before its first layer.
func (c *execution) intend(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	if req.Accept != nil {
		return c.accept(ctx, req)
	}
	s, problems, err := c.programs.suggest(ctx, c.o.Workspace.Dir, suggest.Request{Intent: req.Intent, Context: req.Input})
	if err != nil {
		return api.Result{}, err
	}
	out := api.Result{Status: api.StatusSuggestions, Suggestions: &s, Faults: problems}
	if !req.PerLayer || !startable(s) {
		return out, nil
	}
	start := req
	start.Tasks, start.HIL = s.SuggestedDAG.Tasks, core.HILAlways
	r, err := c.Execute(ctx, start)
	switch core.CodeOf(err) {
	case "":
		r.Suggestions, r.Faults = &s, append(r.Faults, problems...)
		return r, nil
	case core.CodeDAGInvalid, core.CodeInvalidArguments, core.CodeNoSuchTool, core.CodePermissionDenied:
		// What was suggested cannot run as it is; nothing was started.
		s.Error = err.Error()
		return out, nil
	default:
		return r, err
	}
}

// startable reports whether a suggestion may start, to wait before its first layer.
func startable(s api.Suggestions) bool {
	if !suggest.Complete(s) || s.Confidence < startConfidence {
		return false
	}
	return !slices.ContainsFunc(s.SuggestedDAG.Tasks, func(t core.TaskSpec) bool {
		server, name, _ := core.SplitTool(t.Tool)
		return suggest.Destroys(core.Tool{Server: server, Name: name})
	})
}

// accept runs what was suggested as any other DAG: through all gates.
func (c *execution) accept(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
	tasks, label, err := acceptedTasks(*req.Accept)
	if err != nil {
		return api.Result{}, err
	}
	req.Accept, req.Tasks = nil, tasks
	if req.Intent == "" {
		req.Intent = accepted + label
	}
	return c.Execute(ctx, req)
}

func acceptedTasks(a api.Acceptance) (tasks []core.TaskSpec, label string, err error) {
	switch {
	case a.Workflow != nil && (a.CallName != "" || len(a.Args) > 0):
		return nil, "", core.Errorf(core.CodeInvalidArguments, "accept a DAG, or the name of a tool with its arguments, not both")
	case a.Workflow != nil && len(a.Workflow.Tasks) == 0:
		return nil, "", core.Errorf(core.CodeInvalidArguments, "the accepted DAG has no tasks")
	case a.Workflow != nil:
		var names []string
		for _, t := range a.Workflow.Tasks {
			names = append(names, t.Tool)
		}
		return a.Workflow.Tasks, core.Visible(strings.Join(names, ", "), 200, false), nil
	}
	if _, _, ok := core.SplitTool(a.CallName); !ok {
		return nil, "", core.Errorf(core.CodeInvalidArguments, "name the tool to accept as server:tool, not %q", core.Visible(a.CallName, 80, false))
	}
	args := bytes.TrimSpace(a.Args)
	if len(args) == 0 || string(args) == "null" {
		args = []byte("{}")
	}
	if args[0] != '{' || !json.Valid(args) {
		return nil, "", core.Errorf(core.CodeInvalidArguments, "the arguments of %s are not a JSON object", core.Visible(a.CallName, 80, false))
	}
	return []core.TaskSpec{{ID: "t1", Tool: a.CallName, Arguments: args}}, core.Visible(a.CallName, 200, false), nil
}

// suggest finds tools and a DAG among the tools of a workspace.
func (c *programs) suggest(ctx context.Context, dir string, r suggest.Request) (s api.Suggestions, problems []core.Fault, err error) {
	return c.process.suggest(ctx, c.o.Store, dir, nil, r)
}

// suggest finds tools and a DAG among the tools of a workspace that may be listed
// without a decision, are not denied, and are allowed by each of the lists. problems name
// the servers whose tools are not known. The past runs are those of a store.
func (c *process) suggest(ctx context.Context, runs store.Reader, dir string, lists [][]string, r suggest.Request) (s api.Suggestions, problems []core.Fault, err error) {
	h, err := c.host(dir)
	if err != nil {
		return s, nil, err
	}
	cfg, err := h.Config()
	if err != nil {
		return s, nil, err
	}
	short, cancel := context.WithTimeout(ctx, suggestTime)
	defer cancel()
	tools, problems, err := h.Tools(short)
	switch {
	case ctx.Err() != nil:
		return s, nil, core.Errorf(core.CodeCancelled, "stopped before anything was suggested: %w", context.Cause(ctx))
	case err != nil && short.Err() == nil:
		return s, nil, err
	case err != nil:
		problems = append(problems, core.Fault{Message: fmt.Sprintf("some servers did not name their tools within %s", suggestTime)})
	}
	if tools, err = allowedTools(cfg, tools, lists); err != nil {
		return s, nil, err
	}
	if r.Past, err = past(ctx, runs, dir); err != nil {
		return s, nil, err
	}
	return c.indexes.of(dir, tools).Suggest(r), problems, nil
}

// maxIndexes bounds the workspaces whose tools are kept ready.
const maxIndexes = 16

// indexes keep the tools of workspaces ready for suggestions. The zero value is.
type indexes struct {
	mu   sync.Mutex
	list map[string]indexed
}

type indexed struct {
	tools []core.Tool
	index *suggest.Index
}

// of is the index of a workspace's tools, made anew when they are others than they
// were.
func (x *indexes) of(dir string, tools []core.Tool) *suggest.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if last, ok := x.list[dir]; ok && reflect.DeepEqual(last.tools, tools) {
		return last.index
	}
	if x.list == nil || len(x.list) >= maxIndexes {
		x.list = map[string]indexed{}
	}
	x.list[dir] = indexed{tools, suggest.New(tools)}
	return x.list[dir].index
}

// undenied leaves out the tools that a rule denies.
func undenied(cfg *env.Config, tools []core.Tool) ([]core.Tool, error) {
	p, err := policy.Compile(cfg.Permissions)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t core.Tool) bool {
		_, denied := p.Denied(policy.Call{Tool: t.ID()})
		return denied
	}), nil
}

// past are the newest successful runs of a workspace that said what they were for,
// with the tools of their plans. Runs that did the same are counted together.
func past(ctx context.Context, s store.Reader, dir string) ([]suggest.Run, error) {
	runs, err := s.Runs(ctx, store.RunFilter{States: []core.RunState{core.RunComplete}, Workspace: dir, Limit: pastRuns})
	if err != nil {
		return nil, err
	}
	var out []suggest.Run
	seen := map[string]int{}
	for _, run := range runs {
		if run.Intent == "" || strings.HasPrefix(run.Intent, accepted) || run.State != core.RunComplete || run.Workspace != dir {
			continue
		}
		program, err := planned(ctx, s, run.ID)
		if code := core.CodeOf(err); code == core.CodeNotFound || code == core.CodeDAGInvalid {
			continue // removed meanwhile, or what this pml would not run
		}
		if err != nil {
			return nil, err
		}
		if program.Plan == nil || len(program.Plan.Tools) == 0 {
			continue
		}
		key := run.Intent + "\x00" + strings.Join(program.Plan.Tools, "\x00")
		if n, ok := seen[key]; ok {
			out[n].Count++
			continue
		}
		seen[key] = len(out)
		out = append(out, suggest.Run{Intent: run.Intent, Tools: program.Plan.Tools, Count: 1})
	}
	return out, nil
}

// ReplanFor adds tasks that fit a requirement to a DAG that waits or was
// interrupted. available are values that may be used as arguments, by name. When
// nothing fits or an argument is not known, nothing changes, and the error says
// what was found and what is missing.
func (c *execution) ReplanFor(ctx context.Context, id core.ID, requirement string, available json.RawMessage, by core.Actor, reason string) (api.Result, error) {
	if strings.TrimSpace(requirement) == "" {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "the requirement says nothing").WithRun(id)
	}
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.Kind != core.KindDAG {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "the run %s runs code; only a DAG can be replanned", id.Short()).WithRun(id)
	}
	if err := c.continuable(run); err != nil {
		return api.Result{}, err
	}
	program, err := c.o.Store.Program(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	s, problems, err := c.programs.suggest(ctx, run.Workspace, suggest.Request{
		Intent: requirement, Context: available, NewID: freeIDs(program.Tasks),
	})
	if err != nil {
		return api.Result{}, err
	}
	if !suggest.Complete(s) {
		return api.Result{}, notPlanned(run, s, problems)
	}
	tasks, err := behind(s.SuggestedDAG.Tasks, program, requirement)
	if err != nil {
		return api.Result{}, err
	}
	if reason == "" {
		reason = requirement
	}
	return c.Replan(ctx, id, tasks, by, reason)
}

// freeIDs names added tasks replan_1, replan_2, …, from the first number after
// those that are there.
func freeIDs(tasks []core.TaskSpec) func(int) string {
	const prefix = "replan_"
	highest := 0
	for _, t := range tasks {
		if n, err := strconv.Atoi(strings.TrimPrefix(t.ID, prefix)); err == nil && strings.HasPrefix(t.ID, prefix) {
			highest = max(highest, n)
		}
	}
	return func(n int) string { return prefix + strconv.Itoa(highest+n) }
}

// afterwards begins a requirement that is about what comes after the rest.
var afterwards = regexp.MustCompile(`(?i)^\s*(and\s+)?(then|after that|afterwards?|finally|puis|ensuite|enfin)\b`)

// behind makes tasks wait for the last layer of a DAG when the requirement says so.
// Without that they wait for nothing but the layers that have begun.
func behind(tasks []core.TaskSpec, program core.Program, requirement string) ([]core.TaskSpec, error) {
	if !afterwards.MatchString(requirement) {
		return tasks, nil
	}
	g, err := engine.Graph(program)
	if err != nil {
		return nil, err
	}
	layers := g.Layers()
	if len(layers) == 0 {
		return tasks, nil
	}
	out := slices.Clone(tasks)
	for i := range out {
		if len(out[i].DependsOn) == 0 {
			out[i].DependsOn = slices.Clone(layers[len(layers)-1])
		}
	}
	return out, nil
}

// pointer escapes a name for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// notPlanned says what was found for a requirement, and what keeps it from running.
func notPlanned(run core.Run, s api.Suggestions, problems []core.Fault) error {
	var found []string
	for _, t := range s.Tools[:min(3, len(s.Tools))] {
		found = append(found, core.Visible(t.CallName, 80, false))
	}
	e := core.Errorf(core.CodeInvalidArguments, "nothing was planned anew: %s", cmp.Or(s.Error, "arguments are missing"))
	if len(found) > 0 {
		e.Message += "; the nearest tools are " + strings.Join(found, ", ")
	}
	e.Message += "; say more, or give the tasks themselves"
	if s.SuggestedDAG != nil {
		for _, m := range s.SuggestedDAG.Missing {
			i := slices.IndexFunc(s.SuggestedDAG.Tasks, func(t core.TaskSpec) bool { return t.ID == m.TaskID })
			e.Faults = append(e.Faults, core.Fault{
				Path:    "/tasks/" + strconv.Itoa(max(0, i)) + "/arguments/" + pointer.Replace(m.Argument),
				Message: fmt.Sprintf("%s needs %s, which nothing says", core.Visible(s.SuggestedDAG.Tasks[max(0, i)].Tool, 80, false), core.Visible(m.Argument, 80, false)),
			})
		}
	}
	e.Faults = append(e.Faults, problems...)
	return e.WithRun(run.ID).WithNext("pml", "replan", run.ID.Short(), "--tasks", "FILE")
}
