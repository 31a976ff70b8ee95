package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
	"github.com/casys-ai/pml/core/redact"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// batch is what the next commit of a run holds. It alone numbers the records of
// the run (core.Run.JournalSeq) and redacts what its events say.
type batch struct {
	run    *core.Run
	redact redact.View
	now    func() time.Time
	newID  func() core.ID

	step store.Step // what has happened since the last commit
	// since is when the oldest event was put into an empty step: events alone wait
	// eventFlush for a commit that has more.
	since time.Time
}

// take returns what is to be committed, and begins the next step: the next turn is
// probably as large as this one.
func (b *batch) take() store.Step {
	b.run.UpdatedAt = b.now()
	b.step.Run = *b.run
	step := b.step
	b.step = store.Step{
		Records: make([]core.Record, 0, len(step.Records)), Events: make([]core.Event, 0, len(step.Events)),
	}
	return step
}

// must reports whether the step holds anything that must be kept before the run
// goes on. Events alone wait a little for company.
func (b *batch) must() bool {
	s := &b.step
	return len(s.Records)+len(s.Open)+len(s.Supersede)+len(s.Undecided)+len(s.Relies)+len(s.Used)+len(s.Audit) > 0 || s.Checkpoint != nil || s.Create
}

// event makes an event of this run.
func (b *batch) event(t core.EventType) core.Event {
	e := core.Event{Type: t, At: b.now(), RunID: b.run.ID}
	if t.NamesRun() {
		e.RunName = b.run.Name
	}
	return e
}

// emit puts an event into the next commit.
func (b *batch) emit(e core.Event) {
	if len(b.step.Events) == 0 {
		b.since = b.now()
	}
	e.Message, e.Error = b.redact.Text(e.Message), b.redact.Error(e.Error)
	b.step.Events = append(b.step.Events, e)
}

// audit puts a row into the next commit.
func (b *batch) audit(r core.AuditRow) {
	r.At, r.RunID, r.RunName, r.Workspace = b.now(), b.run.ID, b.run.Name, b.run.Workspace
	b.step.Audit = append(b.step.Audit, r)
}

// settled tells of the outcome of a call.
func (b *batch) settled(c *call, r core.Record) {
	e := b.event(core.EventTaskComplete)
	if r.Outcome != core.OutcomeSuccess && r.Outcome != core.OutcomeSkipped {
		e.Type, e.Error = core.EventTaskError, r.Error
	}
	layer := c.layer
	e.TaskID, e.Tool, e.Layer, e.DurationMS = c.id, c.tool, &layer, r.DurationMS()
	if r.Outcome != core.OutcomeSuccess {
		e.Message = string(r.Outcome)
	}
	b.emit(e)
	if r.Tool == core.ModelTool && r.Outcome == core.OutcomeSuccess {
		b.iteration(c, r)
	}
}

// iteration tells of an answer of an agent's model.
func (b *batch) iteration(c *call, r core.Record) {
	a, err := agent.Decode(r.Result)
	if err != nil || c.prompt == nil {
		return
	}
	e := b.event(core.EventAgentIteration)
	layer := c.layer
	e.TaskID, e.Tool, e.Layer, e.DurationMS = c.id, c.tool, &layer, r.DurationMS()
	scripts := fmt.Sprintf("%d scripts", len(a.Calls))
	if len(a.Calls) == 1 {
		scripts = "1 script"
	}
	used, data := "tokens not reported", map[string]any{"model": c.prompt.name, "runs": len(a.Calls), "stop": a.Stop}
	if a.Usage != nil {
		used = fmt.Sprintf("%d tokens read, %d written", a.Usage.Prompt(), a.Usage.Output)
		data["usage"] = a.Usage
	}
	e.Message = fmt.Sprintf("%s: %s, %s to run", c.id, used, scripts)
	if data, err := json.Marshal(data); err == nil {
		e.Data = data
	}
	b.emit(e)
}

// checkpoint marks that a layer is complete.
func (b *batch) checkpoint(layer int) {
	cp := core.Checkpoint{
		ID: b.newID(), RunID: b.run.ID, Layer: layer, DAGVersion: b.run.DAGVersion,
		JournalSeq: b.run.JournalSeq, CreatedAt: b.now(),
	}
	b.step.Checkpoint = &cp
	e := b.event(core.EventCheckpoint)
	e.Layer = &layer
	b.emit(e)
}

// console tells of a line that the program has logged.
func (b *batch) console(l sandbox.Log) {
	e := b.event(core.EventTaskLog)
	e.Message = l.Text
	if l.Level != "log" && l.Level != "info" && l.Level != "" {
		e.Message = l.Level + ": " + l.Text
	}
	b.emit(e)
}

// record appends a journal record to the next commit.
func (b *batch) record(r core.Record) int64 {
	b.run.JournalSeq++
	r.Seq = b.run.JournalSeq
	if r.At.IsZero() {
		r.At = b.now()
	}
	b.step.Records = append(b.step.Records, r)
	return r.Seq
}

// certain is what is true of a turn that was not committed, however far it got:
// outcomes, what was acted upon and refused. Questions were not asked yet, and
// calls that were about to start did not.
func (b *batch) certain() store.Step {
	s := store.Step{Audit: b.step.Audit}
	for _, r := range b.step.Records {
		if r.Kind == core.RecordSettled {
			s.Records = append(s.Records, r)
		}
	}
	for _, u := range b.step.Used {
		if !slices.ContainsFunc(b.step.Open, func(o core.Approval) bool { return o.ID == u.Approval }) {
			s.Used = append(s.Used, u)
		}
	}
	for _, e := range b.step.Events {
		switch e.Type { //nolint:exhaustive // the others tell of what was about to be
		case core.EventTaskComplete, core.EventTaskError, core.EventTaskLog, core.EventTaskWarning:
			s.Events = append(s.Events, e)
		}
	}
	return s
}

// flush commits what waits, even when it is events only.
func (a *actor) flush() error {
	// What happened is kept even when the engine is told to stop meanwhile.
	ctx := a.eng.last
	if err := a.rehome(ctx); err != nil {
		return err
	}
	step := a.batch.take()
	if err := a.store.commit(ctx, step); err != nil {
		return err
	}
	a.eng.publish(a.run.Kind, step.Events)
	a.tellFlows()
	return nil
}

// tellFlows tells the host of calls that hook flows have let pass, and that got no answer.
func (a *actor) tellFlows() {
	host, ok := unbounded(a.host).(Passing)
	for _, c := range a.calls.unanswered {
		err := c.err
		if err == nil {
			err = core.Errorf(core.CodeCancelled, "the run ended before the call was answered")
		}
		if c.outcome == core.OutcomeSuccess {
			err = core.Errorf(core.CodeCancelled, "a person gave the result of the call")
		}
		if ok {
			host.Unanswered(a.gates.call(c), err)
		}
	}
	a.calls.unanswered = nil
}

// commit commits what the turn made, if anything of it must be kept before the
// run goes on. Events alone wait a little for company.
func (a *actor) commit() error {
	if !a.batch.must() && a.run.State == a.handle.stateNow() {
		return nil
	}
	step := a.batch.step
	err := a.flush()
	if err == nil && slices.ContainsFunc(step.Open, a.gates.answeredElsewhere) {
		a.handle.wake() // what was said before it could be seen
	}
	if core.CodeOf(err) != core.CodeAlreadyDecided {
		return err
	}
	a.batch.step = step
	if err := a.lookAgain(); err != nil {
		return err
	}
	return a.commit()
}

// lookAgain takes back what a step wanted that the store has refused: somebody has
// decided about a call that was about to go on without being asked about any more. The
// calls of those questions go to their gates again, which know the decision.
func (a *actor) lookAgain() error {
	asked, relies := a.batch.step.Undecided, a.batch.step.Relies
	a.batch.step.Undecided, a.batch.step.Relies = nil, nil
	of := func(id core.ID) bool { return slices.Contains(asked, id) }
	a.batch.step.Supersede = slices.DeleteFunc(slices.Clone(a.batch.step.Supersede), of)
	a.batch.step.Events = slices.DeleteFunc(slices.Clone(a.batch.step.Events), func(e core.Event) bool { return e.ApprovalID != "" && of(e.ApprovalID) })
	calls := a.questions.callsOf(asked)
	for _, r := range relies {
		treeOf(a.host).forget(r.Tool)
		delete(a.gates.relied, r.Approval)
		a.batch.step.Audit = slices.DeleteFunc(slices.Clone(a.batch.step.Audit), func(row core.AuditRow) bool { return row.ApprovalID == r.Approval })
		calls = append(calls, r.CallID)
	}
	permitted := a.gates.takeBackPermits()
	if err := a.look(a.eng.last); err != nil {
		return err
	}
	calls = append(calls, slices.DeleteFunc(slices.Clone(permitted), func(id string) bool { return slices.Contains(calls, id) })...)
	for _, id := range calls {
		if c := a.calls.takeBack(id); c != nil {
			if slices.Contains(permitted, id) {
				c.refusals++
			}
			a.gates.check(c)
		}
	}
	return nil
}
