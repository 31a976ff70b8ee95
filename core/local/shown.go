package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// shown takes the values of keys out of what is kept of a workspace's runs: of
// inputs, labels and arguments, which are kept as they were given, and of what
// was kept before a value was declared as a key.
type shown struct {
	replace     func(string) string
	replaceJSON func(json.RawMessage) json.RawMessage
}

// shownOf is for runs of a workspace. Where its configuration cannot be read
// any more, all that its .env holds counts as a key.
func (c *Client) shownOf(dir string) shown {
	if h, err := c.host(dir); err == nil {
		return shown{h.Redact, h.RedactJSON}
	}
	name := filepath.Join(dir, ".env")
	data, err := os.ReadFile(name)
	if err != nil {
		data = nil
	}
	values, _ := env.ParseDotEnv(name, data) // what can be read of a malformed one counts
	r := env.NewRedactor(values)
	return shown{r.String, r.JSON}
}

func (s shown) text(text string) string {
	if text == "" {
		return text
	}
	return s.replace(text)
}

func (s shown) json(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	return s.replaceJSON(raw)
}

func (s shown) run(r core.Run) core.Run {
	r.IdempotencyKey = givenKey(r)
	r.Intent, r.Options.Input, r.Result, r.Error = s.text(r.Intent), s.json(r.Options.Input), s.json(r.Result), s.err(r.Error)
	if r.Abort != nil {
		abort := *r.Abort
		abort.Reason = s.text(abort.Reason)
		r.Abort = &abort
	}
	return r
}

func (s shown) workflow(w core.Workflow) core.Workflow {
	w.Run = s.run(w.Run)
	for _, l := range w.Layers {
		for i := range l.Tasks {
			t := &l.Tasks[i]
			t.Arguments, t.Output, t.Error = s.json(t.Arguments), s.json(t.Output), s.err(t.Error)
		}
	}
	for i := range w.Approvals {
		w.Approvals[i] = s.approval(w.Approvals[i])
	}
	return w
}

func (s shown) approval(a core.Approval) core.Approval {
	a.Description, a.Context, a.DecidedBy = s.text(a.Description), s.json(a.Context), s.decided(a.DecidedBy)
	if a.Answer != nil {
		answer := *a.Answer
		answer.Result = s.json(answer.Result)
		a.Answer = &answer
	}
	return a
}

func (s shown) decided(d *core.DecidedBy) *core.DecidedBy {
	if d == nil {
		return nil
	}
	out := *d
	out.Reason = s.text(out.Reason)
	return &out
}

func (s shown) err(e *core.Error) *core.Error {
	if e == nil {
		return nil
	}
	out := *e
	out.Message, out.Stack, out.Decided = s.text(e.Message), s.text(e.Stack), s.decided(e.Decided)
	out.Faults, out.Failures = slices.Clone(e.Faults), slices.Clone(e.Failures)
	for i := range out.Faults {
		out.Faults[i].Message = s.text(out.Faults[i].Message)
	}
	for i := range out.Failures {
		out.Failures[i].Error = s.text(out.Failures[i].Error)
	}
	return &out
}

func (s shown) record(r core.Record) core.Record {
	r.Args, r.Sent, r.Result, r.Error = s.json(r.Args), s.json(r.Sent), s.json(r.Result), s.err(r.Error)
	return r
}

func (s shown) program(p core.Program) core.Program {
	p.Source, p.Script = s.text(p.Source), s.text(p.Script)
	p.Tasks = slices.Clone(p.Tasks)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Arguments, t.Code, t.When = s.json(t.Arguments), s.text(t.Code), s.text(t.When)
	}
	if p.Plan != nil {
		plan := *p.Plan
		plan.Calls = slices.Clone(plan.Calls)
		for i := range plan.Calls {
			plan.Calls[i].Arguments = s.json(plan.Calls[i].Arguments)
		}
		p.Plan = &plan
	}
	return p
}

func (s shown) event(e core.Event) core.Event {
	e.Message, e.Data, e.Error = s.text(e.Message), s.json(e.Data), s.err(e.Error)
	return e
}

// knownRuns bounds of how many runs the workspace is remembered while events are
// followed: a server follows them for as long as it lives.
const knownRuns = 1024

// shownEvents shows events of any runs. The workspace of a run that is gone is
// not known any more: the client's own counts. It fails when the workspace cannot
// be looked up now.
func (c *Client) shownEvents(ctx context.Context) func(core.Event) (core.Event, error) {
	dirs := map[core.ID]string{}
	return func(e core.Event) (core.Event, error) {
		dir, ok := dirs[e.RunID]
		if e.RunID == "" {
			dir, ok = c.o.Workspace.Dir, true
		}
		if !ok {
			run, err := c.o.Store.Run(ctx, e.RunID)
			switch core.CodeOf(err) {
			case "":
				dir = run.Workspace
				if len(dirs) >= knownRuns {
					clear(dirs) // those that go on are soon known again
				}
				dirs[e.RunID] = dir
			case core.CodeNotFound:
				dir = c.o.Workspace.Dir
			default:
				return e, err
			}
		}
		return c.shownOf(dir).event(e), nil
	}
}
