package plain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// together decides all approvals of a type that wait: approve or deny, then the
// type, then a reason. Each is read out before; what has to be decided by itself
// is refused.
func (d *dialogue) together(ctx context.Context, rest string) {
	verb, rest, _ := strings.Cut(rest, " ")
	name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	list := d.ofType(name)
	switch {
	case verb != "approve" && verb != "deny":
		d.say("say all approve or all deny, and a type: %s.", strings.Join(d.typesWaiting(), ", "))
		return
	case len(list) == 0:
		d.say("nothing of that type is waiting; there is: %s.", strings.Join(d.typesWaiting(), ", "))
		return
	case slices.ContainsFunc(list, func(a core.Approval) bool { return d.off(a.Side) }):
		return
	}
	c := decide.Choice{Verb: decide.Deny, Reason: strings.TrimSpace(reason)}
	if verb == "approve" {
		c = decide.Choice{Verb: decide.Approve}
		if why := decide.Together(list, d.now()); why != "" {
			d.say("not possible: %s.", why)
			return
		}
	}
	for _, a := range list {
		if d.pick(a.ID); d.current != a.ID || approves(c.Verb) && !d.show(ctx) {
			d.say("nothing was decided.")
			return
		}
		if !approves(c.Verb) {
			d.say("approval %s", d.headline(a, d.now()))
		}
	}
	d.sendAll(ctx, list, c, fmt.Sprintf("%s all %d", verb, len(list)))
}

// sendAll decides approvals that were read out, each bound to what was read.
func (d *dialogue) sendAll(ctx context.Context, list []core.Approval, c decide.Choice, what string) {
	if !d.agrees(ctx, what) {
		d.say("nothing was decided.")
		return
	}
	pin := ""
	if approves(c.Verb) {
		var ok bool
		if pin, ok = d.pin(ctx); !ok {
			return
		}
	}
	for _, a := range list {
		if d.off(a.Side) {
			return
		}
		d.send(ctx, a, c, pin)
	}
}

// ofType are the approvals that wait and are of a type, by its name in the
// contract or the words that are said here, with dashes.
func (d *dialogue) ofType(name string) []core.Approval {
	return slices.DeleteFunc(slices.Clone(d.waiting()), func(a core.Approval) bool {
		return name != string(a.Type) && name != dashed(a.Type)
	})
}

// typesWaiting are the types of what waits, as they are typed.
func (d *dialogue) typesWaiting() []string {
	out := []string{}
	for _, a := range d.waiting() {
		if name := dashed(a.Type); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func dashed(t core.ApprovalType) string { return strings.ReplaceAll(typeName(t), " ", "-") }

// replan adds the tasks of a file to a DAG.
func (d *dialogue) replan(ctx context.Context, rest string) {
	prefix, file, _ := strings.Cut(rest, " ")
	file = strings.TrimSpace(file)
	if file == "" || d.o.ReadFile == nil {
		d.say(`say replan, the id of a run, and a file in JSON: {"tasks": [...]}.`)
		return
	}
	r, ok := d.workflow(prefix)
	if !ok || d.off(r.Side) {
		return
	}
	data, err := d.o.ReadFile(file)
	if err != nil {
		d.failed(err)
		return
	}
	tasks, _, err := d.o.Backend.ParseDAG(data)
	if err != nil {
		d.failed(err)
		return
	}
	for _, t := range tasks {
		d.say("  new task %s: %s", core.Visible(t.ID, 80, false), core.Visible(t.Tool, 120, false))
	}
	if !d.agrees(ctx, fmt.Sprintf("add %s to %s", plural(len(tasks), "task"), r.ID.Short())) || d.off(r.Side) {
		d.say("nothing was added.")
		return
	}
	if _, err = d.o.Backend.Replan(ctx, r.ID, tasks, d.by(), ""); err != nil {
		d.failed(err)
		return
	}
	d.feed.Touch(r.ID)
	d.say("done: %s added to %s.", plural(len(tasks), "task"), r.ID.Short())
}
