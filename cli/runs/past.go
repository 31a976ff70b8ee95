package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// past is what the events of a run say of it that its journal does not.
type past struct {
	retried []time.Time    // when it was begun again after it had failed
	begun   map[string]int // how often each call was
}

// readWithPast reads a run, and from its events which calls are under way, or were when it
// was interrupted, that are in no journal yet, and what was made anew.
func readWithPast(ctx context.Context, b app.Backend, id core.ID) (core.Workflow, past, error) {
	p := past{begun: map[string]int{}}
	w, err := b.Workflow(ctx, id)
	if err != nil {
		return w, p, err
	}
	begun := core.Begun{}
	err = b.Events(ctx, id, api.Since{}, false, func(e core.Event) error {
		begun.Note(&e)
		switch {
		case e.RunID != "" && e.RunID != w.ID:
		case e.Type == core.EventTaskStart:
			p.begun[e.TaskID]++
		case e.Type == core.EventWorkflowStart && e.Message == "retry":
			p.retried = append(p.retried, e.At)
		}
		return nil
	})
	begun.Show(&w)
	if err == nil && w.Kind == core.KindCode && lacksArguments(w) {
		err = expectArguments(ctx, b, &w)
	}
	return w, p, err
}

// lacksArguments reports whether a call is under way that is in no journal yet.
func lacksArguments(w core.Workflow) bool {
	for _, l := range w.Layers {
		if slices.ContainsFunc(l.Tasks, unknownArguments) {
			return true
		}
	}
	return false
}

func unknownArguments(t core.Task) bool {
	return len(t.Arguments) == 0 && t.StartedAt != nil && !t.State.Settled()
}

// expectArguments gives calls that are in no journal yet the arguments that the plan has of
// them, where it knows all the calls of the script: then it has their ids.
func expectArguments(ctx context.Context, b app.Backend, w *core.Workflow) error {
	f, err := b.ExportRun(ctx, w.ID)
	if err != nil {
		return err
	}
	var r api.ExportedRun
	if err := json.Unmarshal(f.Workflow, &r); err != nil || r.Program.Plan == nil || len(r.Program.Plan.Unknown) > 0 {
		return nil //nolint:nilerr // they stay unknown
	}
	plan := map[string]core.PlanCall{}
	for _, c := range r.Program.Plan.Calls {
		if c.Conditional || c.Repeated {
			return nil
		}
		plan[c.ID] = c
	}
	for i := range w.Layers {
		tasks := w.Layers[i].Tasks
		for k, t := range tasks {
			if c := plan[t.ID]; unknownArguments(t) && c.Tool == t.Tool {
				tasks[k].Arguments = c.Arguments
			}
		}
	}
	return nil
}

// retriedText says when a run was retried, empty for one that was not.
func (p past) retriedText(now time.Time) string {
	n := len(p.retried)
	if n == 0 {
		return ""
	}
	last := p.retried[n-1]
	text := layout.Stamp(last) + " (" + layout.Ago(now, last) + " ago)"
	if n > 1 {
		text = fmt.Sprintf("%d times, last %s", n, text)
	}
	return text
}

// attemptText says which attempt a call is in, or has ended with; empty for the first.
func (p past) attemptText(t core.Task) string {
	n := max(t.Attempt, p.begun[t.ID])
	if n < 2 {
		return ""
	}
	ending := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		ending = "st"
	case n%10 == 2:
		ending = "nd"
	case n%10 == 3:
		ending = "rd"
	}
	return strconv.Itoa(n) + ending + " attempt"
}
