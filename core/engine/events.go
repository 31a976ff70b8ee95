package engine

import "github.com/casys-ai/pml/core"

// event makes an event of this run.
func (a *actor) event(t core.EventType) core.Event {
	return core.Event{Type: t, At: a.now(), RunID: a.run.ID}
}

// emit puts an event into the next commit.
func (a *actor) emit(e core.Event) {
	if len(a.step.Events) == 0 {
		a.eventsSince = a.now()
	}
	e.Message, e.Error = a.redactText(e.Message), a.redactError(e.Error)
	a.step.Events = append(a.step.Events, e)
}

// audit puts a row into the next commit.
func (a *actor) audit(r core.AuditRow) {
	r.At, r.RunID, r.Workspace = a.now(), a.run.ID, a.run.Workspace
	a.step.Audit = append(a.step.Audit, r)
}

func (a *actor) settledEvent(c *call, r core.Record) {
	e := a.event(core.EventTaskComplete)
	if r.Outcome != core.OutcomeSuccess && r.Outcome != core.OutcomeSkipped {
		e.Type, e.Error = core.EventTaskError, r.Error
	}
	layer := c.layer
	e.TaskID, e.Tool, e.Layer, e.DurationMS = c.id, c.tool, &layer, r.DurationMS()
	if r.Outcome != core.OutcomeSuccess {
		e.Message = string(r.Outcome)
	}
	a.emit(e)
}

func (a *actor) publish(events []core.Event) {
	if a.o.Publish != nil && len(events) > 0 {
		a.o.Publish(a.run.Kind, events)
	}
}
