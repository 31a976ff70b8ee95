package plain

import (
	"context"
	"fmt"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

// shown is how many rows a list has.
const shown = 20

// list says what waits and what was decided last.
func (d *dialogue) list() {
	if !d.greeted {
		d.say(notRead)
		return
	}
	now := d.now()
	waiting := d.waiting()
	if len(waiting) == 0 {
		d.say("%s", d.status.nothing(d.st))
	}
	for i, a := range waiting {
		if i == shown {
			d.say("and %d more.", len(waiting)-shown)
			break
		}
		d.say("waiting %d of %d: %s", i+1, len(waiting), d.headline(a, now))
	}
	for _, a := range d.st.Resolved(now, 5) {
		by := ""
		if a.DecidedBy != nil {
			by = " by " + core.Visible(a.DecidedBy.Origin(), 80, false)
		}
		d.say("resolved: %s %s%s, %s. Id %s.", typeName(a.Type), a.StateAt(now), by, core.Visible(a.Description, 200, false), a.ID.Short())
	}
}

// runs says the newest runs.
func (d *dialogue) runs() {
	if !d.greeted {
		d.say(notRead)
		return
	}
	ids := d.st.Runs()
	if len(ids) == 0 {
		d.say("no runs yet.")
	}
	for i, id := range ids {
		if i == shown {
			d.say("and %d more.", len(ids)-shown)
			return
		}
		r, _ := d.st.Run(id)
		layer := plural(max(r.TotalLayers, 1), "layer")
		if at := d.st.LayerOf(r); at > 0 {
			layer = fmt.Sprintf("layer %d of %d", at, max(r.TotalLayers, 1))
		}
		d.say("run %s: %s, %s, %s.", id.Short(), state.Name(r), r.State, layer)
	}
}

// run says one run with its tasks.
func (d *dialogue) run(ctx context.Context, prefix string) {
	r, ok := d.workflow(prefix)
	if !ok {
		return
	}
	id := r.ID
	w, err := d.o.Backend.Workflow(ctx, id)
	if err != nil {
		d.failed(err)
		return
	}
	d.say("run %s: %s, %s.", id.Short(), state.Name(w.Run), w.State)
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			d.say("  layer %d, %s, %s: %s%s", l.Index+1, core.Visible(t.ID, 80, false), core.Visible(t.Tool, 120, false), t.State, taskMore(t))
		}
	}
	if w.Error != nil {
		d.say("  error: %s", core.Visible(core.ShownAbort(w.Error.Message, w.Approvals...), 1000, false))
	}
	if len(w.Result) > 0 {
		d.say("  result: %s", core.Visible(string(w.Result), 1000, false))
	}
}

func taskMore(t core.Task) string {
	switch {
	case t.Error != nil:
		return ", " + core.Visible(t.Error.Message, 300, false)
	case t.Predicted:
		return ", predicted"
	case t.DurationMS > 0:
		return fmt.Sprintf(", %.0f milliseconds", t.DurationMS)
	}
	return ""
}

// move does something with a run.
func (d *dialogue) move(ctx context.Context, verb, prefix string) {
	r, ok := d.workflow(prefix)
	if !ok || d.off(r.Side) {
		return
	}
	id := r.ID
	if verb == "abort-run" && (!d.agrees(ctx, "end run "+id.Short()) || d.off(r.Side)) {
		d.say("not aborted.")
		return
	}
	d.taken.note(ctx, id)
	var err error
	switch verb {
	case "retry":
		_, err = d.o.Backend.Retry(ctx, id, d.by(), 0)
	case "continue":
		_, err = d.o.Backend.Continue(ctx, api.ContinueRequest{ID: id, By: d.by()})
	default:
		_, err = d.o.Backend.Abort(ctx, id, d.by(), "")
	}
	d.feed.Touch(id)
	if err != nil {
		d.failed(err)
		return
	}
	d.say("done: %s %s.", verb, id.Short())
}
