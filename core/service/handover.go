package service

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// clientTools are the tools of a plan that the configuration of a server gives
// to the caller's machine. Where it says nothing, everything runs here.
func (c *handover) clientTools(plan *core.Plan) ([]string, error) {
	if c.o.Side != core.SideServer || plan == nil {
		return nil, nil
	}
	h, err := c.own()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, tool := range plan.Tools {
		if _, _, ok := core.SplitTool(tool); !ok || tool == core.CodeTool {
			continue
		}
		side, explicit, err := h.Side(tool)
		if err != nil {
			return nil, err
		}
		if explicit && side == core.SideClient {
			out = append(out, tool)
		}
	}
	return out, nil
}

// giveAway keeps a run that the caller's machine is to run, and answers with
// what it needs for that.
func (c *handover) giveAway(ctx context.Context, run core.Run, program core.Program, tools []string) (api.Result, error) {
	run.Remote, run.State, run.DAGVersion = true, core.RunRunning, program.Version
	step := store.Step{Run: run, Create: true, Program: &program}
	step.Events = []core.Event{{Type: core.EventWorkflowStart, At: run.CreatedAt, RunID: run.ID, Message: "given to the client"}}
	err := c.base.Store.Commit(ctx, step)
	if dup := duplicate(err); dup != "" {
		return c.again(ctx, dup, 0, false)
	}
	if err != nil {
		return api.Result{}, c.ownKey(err, run)
	}
	c.published(run.Kind, step.Events)
	return given(run, program, tools), nil
}

// givenAway is the answer of giveAway for a run that was given away before.
func (c *handover) givenAway(ctx context.Context, run core.Run) (api.Result, error) {
	program, err := planned(ctx, c.o.Store, run.ID)
	if err != nil {
		return api.Result{}, err
	}
	tools, err := c.clientTools(program.Plan)
	if err != nil {
		return api.Result{}, err
	}
	return given(run, program, tools), nil
}

func given(run core.Run, program core.Program, tools []string) api.Result {
	r := api.Result{Status: api.StatusExecuteLocally, WorkflowID: run.ID, Code: program.Source, ClientTools: tools, Plan: program.Plan}
	if len(program.Tasks) > 0 {
		r.Workflow = &api.WorkflowBody{Tasks: program.Tasks}
	}
	if program.Plan != nil {
		r.ToolsUsed = program.Plan.Tools
	}
	return r
}

// notHere refuses to do with a run what only the machine that runs it can do.
func notHere(run core.Run) error {
	return core.Errorf(core.CodeNotWaiting, "the run %s was given to its client, which runs it; do this there", run.ID.Short()).WithRun(run.ID)
}

// abortGiven ends a run that a client was given: what the client still does of
// it is its own.
func (c *handover) abortGiven(ctx context.Context, id core.ID) error {
	_, err := c.endGiven(ctx, id, func(run *core.Run, step *store.Step) error {
		var abort core.AbortRequest
		if run.Abort != nil {
			abort = *run.Abort
		}
		run.State = core.RunAborted
		run.Error = core.Errorf(core.CodeAborted, "%s", abort.Text())
		step.Events = []core.Event{{Type: core.EventWorkflowAbort, At: c.now(), RunID: id, Message: abort.Reason, Error: run.Error}}
		return nil
	})
	return err
}

// givenFor is how long a run that was given away may go without news: its client
// is gone, or has forgotten it.
const givenFor = 24 * time.Hour

// abandonGiven ends the runs that their clients have not reported for so long. A
// report that comes later is one of a run that has ended otherwise.
func (c *handover) abandonGiven(ctx context.Context) error {
	if c.o.Side != core.SideServer {
		return nil
	}
	runs, err := c.o.Store.Runs(ctx, store.RunFilter{States: []core.RunState{core.RunRunning}})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if !run.Remote || c.now().Sub(run.UpdatedAt) < givenFor {
			continue
		}
		_, err := c.endGiven(ctx, run.ID, func(run *core.Run, step *store.Step) error {
			run.State = core.RunAborted
			run.Error = core.Errorf(core.CodeWorkflowExpired, "its client has not reported the run for %d hours", int(givenFor.Hours()))
			step.Events = []core.Event{{Type: core.EventWorkflowAbort, At: run.UpdatedAt, RunID: run.ID, Message: run.Error.Message, Error: run.Error}}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// endGiven commits the end of a run that was given away. One of any number of
// callers, in any process, ends it: ended is false when somebody else has.
func (c *handover) endGiven(ctx context.Context, id core.ID, end func(*core.Run, *store.Step) error) (ended bool, err error) {
	if _, err := c.engineFor(ctx); err != nil { // makes this process a runner
		return false, err
	}
	c.traces.Lock()
	defer c.traces.Unlock()
	run, err := c.o.Store.Run(ctx, id)
	if err != nil || run.State.Final() {
		return false, err
	}
	if run, err = c.base.Store.Claim(ctx, id, c.runnerID()); err != nil {
		return false, err
	}
	now := c.now()
	run.UpdatedAt, run.EndedAt, run.ExpiresAt = now, &now, nil
	var step store.Step
	if err := end(&run, &step); err != nil {
		return false, err
	}
	step.Run = run
	if err := c.base.Store.Commit(context.WithoutCancel(ctx), step); err != nil {
		return false, err
	}
	// What was called elsewhere is not this machine's to be measured.
	c.published(run.Kind, slices.DeleteFunc(step.Events, func(e core.Event) bool {
		return e.Type == core.EventTaskComplete || e.Type == core.EventTaskError
	}))
	return true, nil
}

// Trace takes what a client reports of a run that it was given. The same report
// again is no error; another one is core.CodeAlreadyDecided.
func (c *handover) Trace(ctx context.Context, id core.ID, t api.Trace) error {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if !run.Remote {
		return core.Errorf(core.CodeNotWaiting, "the run %s was not given to a client: nobody can report it", id.Short()).WithRun(id)
	}
	if err := c.checkTrace(ctx, run, t); err != nil {
		return err
	}
	digest, err := core.DigestOf(t)
	if err != nil {
		return err
	}
	ended, err := c.endGiven(ctx, id, func(run *core.Run, step *store.Step) error {
		return c.report(run, step, t, digest)
	})
	if err != nil || ended {
		return err
	}
	return c.reported(ctx, id, digest)
}

// traced is the data of the event that ends a reported run.
type traced struct {
	Trace string `json:"trace_digest"`
}

// reported finds out whether a run that has ended was ended by this report.
func (c *handover) reported(ctx context.Context, id core.ID, digest string) error {
	events, err := c.o.Store.Events(ctx, store.EventFilter{RunID: id, Types: []core.EventType{
		core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort,
	}})
	if err != nil {
		return err
	}
	for _, e := range events {
		var data traced
		if json.Unmarshal(e.Data, &data) == nil && data.Trace == digest {
			return nil
		}
	}
	return core.Errorf(core.CodeAlreadyDecided, "the run %s has ended otherwise than is reported now", id.Short()).WithRun(id).
		WithNext("pml", "workflows", "show", id.Short())
}

// checkTrace refuses reports that no run could have left.
func (c *handover) checkTrace(ctx context.Context, run core.Run, t api.Trace) error {
	wrong := func(format string, args ...any) error {
		return core.Errorf(core.CodeInvalidArguments, "the report of the run "+run.ID.Short()+" is not valid: "+format, args...).WithRun(run.ID)
	}
	switch t.State {
	case core.RunComplete, core.RunFailed, core.RunAborted:
	case core.RunRunning, core.RunWaiting, core.RunInterrupted, core.RunExpired:
		return wrong("it must have ended, and is %s", t.State)
	default:
		return wrong("%q is not a state", core.Visible(string(t.State), 40, false))
	}
	if (t.State == core.RunFailed) != (t.Error != nil) && t.State != core.RunAborted {
		return wrong("a failed run, and no other, has an error")
	}
	if bad := badJSON(t.Result); bad != "" {
		return wrong("its result %s", bad)
	}
	if !(t.ActiveMS >= 0) || math.IsInf(t.ActiveMS, 0) {
		return wrong("it cannot have run for %v ms", t.ActiveMS)
	}
	cfg, err := c.configOf(run.Workspace)
	if err != nil {
		return err
	}
	if limit := 4 * cfg.Limits.Calls; len(t.Records) > limit {
		return wrong("it has %d records, more than %d", len(t.Records), limit)
	}
	program, err := planned(ctx, c.o.Store, run.ID)
	if err != nil {
		return err
	}
	layers := len(t.Records) // each is at most one beyond those that were planned
	if program.Plan != nil {
		layers += len(program.Plan.Layers)
	}
	for i, r := range t.Records {
		if bad := badRecord(r, layers); bad != "" {
			return wrong("record %d %s", i, bad)
		}
	}
	return nil
}

// maxNamed bounds the names of calls and tools in a report.
const maxNamed = 200

// badRecord says what is wrong with a record of a report, nothing if it is right.
func badRecord(r core.Record, layers int) string {
	switch r.Kind {
	case core.RecordStarted, core.RecordParked, core.RecordSettled, core.RecordLayer, core.RecordVoid:
	default:
		return fmt.Sprintf("has the kind %q", core.Visible(string(r.Kind), 40, false))
	}
	switch r.Outcome {
	case core.OutcomeSuccess, core.OutcomeError, core.OutcomeFailedSafe, core.OutcomeSkipped, core.OutcomeDenied, core.OutcomeCancelled:
		if r.Kind != core.RecordSettled {
			return fmt.Sprintf("has an outcome and is %s", r.Kind)
		}
	default:
		if r.Outcome != "" || r.Kind == core.RecordSettled {
			return fmt.Sprintf("has the outcome %q", core.Visible(string(r.Outcome), 40, false))
		}
	}
	for _, name := range []string{r.CallID, r.Tool, r.ArgsDigest} {
		if core.Visible(name, maxNamed, false) != name {
			return fmt.Sprintf("names %q", core.Visible(name, 40, false))
		}
	}
	if r.CallID == "" && r.Kind != core.RecordLayer {
		return "names no call"
	}
	values := []json.RawMessage{r.Args, r.Sent, r.Result}
	if r.Passage != nil {
		values = append(values, r.Passage.Args, r.Passage.Response)
		for _, f := range r.Passage.Flows {
			values = slices.AppendSeq(values, maps.Values(f.Variables))
		}
	}
	for _, raw := range values {
		if bad := badJSON(raw); bad != "" {
			return bad
		}
	}
	if r.Layer < 0 || r.Layer >= layers || r.Attempt < 0 || r.Attempt > maxAttempt {
		return fmt.Sprintf("has the layer %d and the attempt %d", r.Layer, r.Attempt)
	}
	return ""
}

// maxAttempt is more often than any call is tried.
const maxAttempt = 1_000_000

func badJSON(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
	case core.TooDeep(raw):
		return fmt.Sprintf("is nested more than %d levels deep", core.MaxDepth)
	case !json.Valid(raw):
		return "is not JSON"
	}
	return ""
}

// clockSkew is how far the clocks of two machines may be apart.
const clockSkew = 5 * time.Minute

// inTime are the times of a reported record, none of them outside of the run: a
// time that cannot be is that of the report.
func inTime(r core.Record, run core.Run, now time.Time) core.Record {
	possible := func(t time.Time) bool {
		return !t.Before(run.CreatedAt.Add(-clockSkew)) && !t.After(now.Add(clockSkew))
	}
	if !possible(r.At) {
		r.At = now
	}
	if !r.StartedAt.IsZero() && (!possible(r.StartedAt) || r.StartedAt.After(r.At)) {
		r.StartedAt = r.At
	}
	r.At, r.StartedAt = r.At.UTC(), r.StartedAt.UTC()
	return r
}

// report turns a report into the step that ends the run.
func (c *handover) report(run *core.Run, step *store.Step, t api.Trace, digest string) error {
	show := c.shownOf(run.Workspace)
	now := run.UpdatedAt // by endGiven
	run.State, run.Result, run.Error = t.State, show.JSON(t.Result), show.Error(t.Error)
	run.ActiveMS = min(t.ActiveMS, float64(max(0, now.Sub(run.CreatedAt)+clockSkew).Milliseconds()))
	for _, r := range t.Records {
		run.JournalSeq++
		r = inTime(show.Record(r), *run, now)
		r.Seq = run.JournalSeq
		run.TotalLayers = max(run.TotalLayers, r.Layer+1)
		step.Records = append(step.Records, r)
		if r.Kind == core.RecordSettled {
			step.Events = append(step.Events, settled(run.ID, r, now))
		}
	}
	run.CurrentLayer = run.TotalLayers
	e := core.Event{Type: core.EventWorkflowComplete, At: now, RunID: run.ID, Error: run.Error}
	switch t.State {
	case core.RunFailed:
		e.Type = core.EventWorkflowFailed
	case core.RunAborted:
		e.Type = core.EventWorkflowAbort
	default:
	}
	if run.Error != nil {
		e.Message = run.Error.Message
	}
	var err error
	if e.Data, err = json.Marshal(traced{digest}); err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode an event: %w", err)
	}
	step.Events = append(step.Events, e)
	return nil
}

// settled is the event of a call whose outcome was reported now.
func settled(id core.ID, r core.Record, now time.Time) core.Event {
	layer := r.Layer
	e := core.Event{Type: core.EventTaskComplete, At: now, RunID: id, TaskID: r.CallID, Tool: r.Tool, Layer: &layer, DurationMS: r.DurationMS()}
	if r.Outcome != core.OutcomeSuccess && r.Outcome != core.OutcomeSkipped {
		e.Type, e.Error = core.EventTaskError, r.Error
	}
	if r.Outcome != core.OutcomeSuccess {
		e.Message = string(r.Outcome)
	}
	return e
}

// TraceOf is what there is to report of a run that a server gave to this
// machine, values of keys left out. It must have ended.
func (c *history) TraceOf(ctx context.Context, id core.ID) (api.Trace, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Trace{}, err
	}
	if !run.State.Final() {
		return api.Trace{}, core.Errorf(core.CodeNotWaiting, "the run %s is %s; it is reported when it has ended", id.Short(), c.present(ctx, run).State).WithRun(id)
	}
	records, err := c.Records(ctx, id, 0)
	if err != nil {
		return api.Trace{}, err
	}
	for i := range records { // a script may call what no tool is named
		records[i].Tool = core.Visible(records[i].Tool, maxNamed/2, false)
	}
	show := c.shownOf(run.Workspace)
	t := api.Trace{State: run.State, Result: show.JSON(run.Result), Error: show.Error(run.Error), Records: slices.Clip(records), ActiveMS: run.ActiveMS}
	if t.State == core.RunExpired { // nobody decided: for the server it was given up
		t.State = core.RunAborted
	}
	return t, nil
}

// again answers a request whose idempotency key stands for a run already.
func (c *handover) again(ctx context.Context, id core.ID, limit time.Duration, hold bool) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.Remote && !run.State.Final() {
		return c.givenAway(ctx, run)
	}
	return c.waiting.follow(ctx, id, nil, limit, hold, api.StatusComplete)
}
