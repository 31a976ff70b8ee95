package redact

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
)

// View takes secret values out of what is shown and kept of a workspace's runs: of
// inputs, labels and arguments, which are kept as they were given, and of what was
// kept before a value was declared as a key. The zero View leaves all as it is.
type View struct {
	text func(string) string
	json func(json.RawMessage) json.RawMessage
	open func(string) int
}

// NewView returns a view that takes values out of a text, and of a JSON value, in
// these ways.
func NewView(text func(string) string, json func(json.RawMessage) json.RawMessage) View {
	return View{text: text, json: json}
}

// Text returns a text without values.
func (v View) Text(text string) string {
	if text == "" || v.text == nil {
		return text
	}
	return v.text(text)
}

// JSON returns a JSON value without values.
func (v View) JSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || v.json == nil {
		return raw
	}
	return v.json(raw)
}

// Run returns a run without values.
func (v View) Run(r core.Run) core.Run {
	r.Intent, r.Name, r.Options.Input, r.Result, r.Error = v.Text(r.Intent), v.Text(r.Name), v.JSON(r.Options.Input), v.JSON(r.Result), v.Error(r.Error)
	if r.Abort != nil {
		abort := *r.Abort
		abort.Reason = v.Text(abort.Reason)
		r.Abort = &abort
	}
	return r
}

// Workflow returns a workflow without values; what it points to is changed.
func (v View) Workflow(w core.Workflow) core.Workflow {
	w.Run = v.Run(w.Run)
	for _, l := range w.Layers {
		v.Tasks(l.Tasks)
	}
	for i := range w.Approvals {
		w.Approvals[i] = v.Approval(w.Approvals[i])
	}
	return w
}

// Tasks takes the values out of tasks, which are changed.
func (v View) Tasks(list []core.Task) {
	for i := range list {
		t := &list[i]
		t.Arguments, t.Sent, t.Output, t.Error = v.JSON(t.Arguments), v.JSON(t.Sent), v.JSON(t.Output), v.Error(t.Error)
	}
}

// Checkpoint returns a checkpoint without values; what it points to is changed.
func (v View) Checkpoint(c core.CheckpointView) core.CheckpointView {
	v.Tasks(c.Tasks)
	for i := range c.Decisions {
		c.Decisions[i] = v.Approval(c.Decisions[i])
	}
	for i := range c.Messages {
		c.Messages[i] = v.Event(c.Messages[i])
	}
	return c
}

// Approval returns an approval without values.
func (v View) Approval(a core.Approval) core.Approval {
	a.RunName, a.Description, a.Context, a.DecidedBy = v.Text(a.RunName), v.Text(a.Description), v.JSON(a.Context), v.Decided(a.DecidedBy)
	for i := range a.Path {
		a.Path[i] = v.Text(a.Path[i])
	}
	if a.Answer != nil {
		answer := *a.Answer
		answer.Result, answer.Arguments = v.JSON(answer.Result), v.JSON(answer.Arguments)
		answer.Shape = v.shape(answer.Shape)
		a.Answer = &answer
	}
	return a
}

// shape returns bounds without values.
func (v View) shape(s *core.Shape) *core.Shape {
	if s == nil {
		return nil
	}
	out := *s
	out.Fields = slices.Clone(s.Fields)
	for i, b := range out.Fields {
		out.Fields[i].Name, out.Fields[i].Matches, out.Fields[i].Is = v.Text(b.Name), v.Text(b.Matches), v.JSON(b.Is)
	}
	return &out
}

// Decided returns what is known of a decision without values.
func (v View) Decided(d *core.DecidedBy) *core.DecidedBy {
	if d == nil {
		return nil
	}
	out := *d
	out.Reason = v.Text(out.Reason)
	return &out
}

// Error returns an error that is fit to be shown and kept.
func (v View) Error(e *core.Error) *core.Error {
	if e == nil || v.text == nil {
		return e
	}
	out := *e
	out.Message, out.Stack, out.Decided = v.Text(e.Message), v.Text(e.Stack), v.Decided(e.Decided)
	out.Faults, out.Failures = slices.Clone(e.Faults), slices.Clone(e.Failures)
	for i := range out.Faults {
		// The place of a fault in arguments names members, which may be anything.
		out.Faults[i].Message, out.Faults[i].Path = v.Text(out.Faults[i].Message), v.Text(out.Faults[i].Path)
	}
	for i := range out.Failures {
		out.Failures[i].Error = v.Text(out.Failures[i].Error)
	}
	return &out
}

// Record returns a record of the journal without values.
func (v View) Record(r core.Record) core.Record {
	r.Args, r.Sent, r.Result, r.Error = v.JSON(r.Args), v.JSON(r.Sent), v.JSON(r.Result), v.Error(r.Error)
	r.Passage = v.passage(r.Passage)
	return r
}

// passage returns what hook flows made of a call without values.
func (v View) passage(p *core.Passage) *core.Passage {
	if p == nil {
		return nil
	}
	out := core.Passage{Flows: slices.Clone(p.Flows), Args: v.JSON(p.Args), Asks: slices.Clone(p.Asks), Response: v.JSON(p.Response)}
	for i := range out.Asks {
		out.Asks[i].Message = v.Text(out.Asks[i].Message)
	}
	for i, f := range out.Flows {
		out.Flows[i].Variables = maps.Clone(f.Variables)
		for name, value := range f.Variables {
			out.Flows[i].Variables[name] = v.JSON(value)
		}
	}
	return &out
}

// Program returns a program without values.
func (v View) Program(p core.Program) core.Program {
	p.Source, p.Script = v.Text(p.Source), v.Text(p.Script)
	p.Tasks = slices.Clone(p.Tasks)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Arguments, t.Code, t.When = v.JSON(t.Arguments), v.Text(t.Code), v.Text(t.When)
	}
	if p.Plan != nil {
		plan := *p.Plan
		plan.Calls = slices.Clone(plan.Calls)
		for i := range plan.Calls {
			plan.Calls[i].Arguments = v.JSON(plan.Calls[i].Arguments)
			plan.Calls[i].Known = v.texts(plan.Calls[i].Known)
		}
		p.Plan = &plan
	}
	if p.Agent != nil {
		agent := *p.Agent
		agent.Goal, agent.Context, agent.System, agent.OutputSchema = v.Text(agent.Goal), v.JSON(agent.Context), v.Text(agent.System), v.JSON(agent.OutputSchema)
		p.Agent = &agent
	}
	return p
}

func (v View) texts(m map[string]string) map[string]string {
	m = maps.Clone(m)
	for name, text := range m {
		m[name] = v.Text(text)
	}
	return m
}

// Event returns an event without values.
func (v View) Event(e core.Event) core.Event {
	e.RunName, e.Message, e.Data, e.Error = v.Text(e.RunName), v.Text(e.Message), v.JSON(e.Data), v.Error(e.Error)
	return e
}
