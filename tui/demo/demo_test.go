package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/demo"
)

type fixed struct{ now time.Time }

func (f *fixed) Now() time.Time { return f.now }

var you = core.Actor{Who: "you", Via: core.ViaTUI}

func begin(t *testing.T) (*demo.Backend, *fixed) {
	t.Helper()
	clock := &fixed{time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)}
	return demo.New(clock), clock
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A call without arguments sends an empty object, as a real one does.
func TestDemo_Arguments(t *testing.T) {
	t.Parallel()
	b, _ := begin(t)
	ctx := context.Background()
	for _, r := range must[api.Page[core.Run]](t)(b.Workflows(ctx, nil, 100, "")).Items {
		for _, layer := range must[core.Workflow](t)(b.Workflow(ctx, r.ID)).Layers {
			for _, task := range layer.Tasks {
				if len(task.Arguments) == 0 || task.Arguments[0] != '{' {
					t.Errorf("%s sends %s", task.Tool, task.Arguments)
				}
			}
		}
	}
}

// TestDemo_HasEverything: each state of a run and each type of approval that the
// product has today is there to be looked at.
func TestDemo_HasEverything(t *testing.T) {
	t.Parallel()
	b, _ := begin(t)
	page := must[api.Page[core.Run]](t)(b.Workflows(t.Context(), nil, 0, ""))
	have := map[core.RunState]bool{}
	for _, r := range page.Items {
		have[r.State] = true
	}
	for _, s := range core.RunStates {
		if !have[s] {
			t.Errorf("no run is %s", s)
		}
	}
	types := map[core.ApprovalType]bool{}
	open := must[[]core.Approval](t)(b.Approvals(t.Context(), false))
	for _, a := range open {
		types[a.Type] = true
		if a.State != core.ApprovalOpen || a.Digest == "" || len(a.Context) == 0 {
			t.Errorf("%+v", a)
		}
	}
	for _, typ := range []core.ApprovalType{core.ApproveDependency, core.ApproveKeys, core.ApproveIntegrity, core.ApproveTool, core.ApproveOAuth, core.ApproveLayer, core.ApproveInDoubt} {
		if !types[typ] {
			t.Errorf("nothing asks for %s", typ)
		}
	}
	if !slices.IsSortedFunc(open, core.BySoonest) {
		t.Error("not by expiry")
	}
	if all := must[[]core.Approval](t)(b.Approvals(t.Context(), true)); len(all) <= len(open) {
		t.Error("nothing was decided before")
	}
}

// TestDemo_Same: the demo is the same each time, so that a recording and a test
// can rely on it.
func TestDemo_Same(t *testing.T) {
	t.Parallel()
	a, _ := begin(t)
	b, _ := begin(t)
	x := must[[]core.Approval](t)(a.Approvals(t.Context(), true))
	y := must[[]core.Approval](t)(b.Approvals(t.Context(), true))
	if len(x) != len(y) {
		t.Fatal(len(x), len(y))
	}
	for i := range x {
		if x[i].ID != y[i].ID || x[i].Digest != y[i].Digest {
			t.Errorf("%s and %s", x[i].ID, y[i].ID)
		}
	}
}

// TestDemo_Servers: a server whose installation was approved is installed.
func TestDemo_Servers(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	serena := func() api.ServerState {
		return must[[]api.ServerInfo](t)(b.CheckServers(t.Context(), "serena"))[0].State
	}
	clock.now = clock.now.Add(time.Second)
	for _, a := range must[[]core.Approval](t)(b.Approvals(t.Context(), false)) {
		if a.Type != core.ApproveDependency {
			continue
		}
		if serena() != api.ServerNeeds {
			t.Error("nobody has approved it")
		}
		if _, err := b.Continue(t.Context(), api.ContinueRequest{ID: a.RunID, By: you, Decision: &api.Decision{Approve: true, Checkpoint: a.ID, ExpectDigest: a.Digest}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := serena(); got != api.ServerReady {
		t.Errorf("serena is %s", got)
	}
}

// TestDemo_Decide: a decision counts once, and its run goes on to its end.
func TestDemo_Decide(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	open := must[[]core.Approval](t)(b.Approvals(t.Context(), false))
	i := slices.IndexFunc(open, func(a core.Approval) bool { return a.Type == core.ApproveIntegrity })
	a := open[i]
	decision := func(approve bool, digest string) error {
		_, err := b.Continue(t.Context(), api.ContinueRequest{ID: a.RunID, By: you, Decision: &api.Decision{Approve: approve, Checkpoint: a.ID, ExpectDigest: digest}})
		return err
	}
	if err := decision(true, "sha256:other"); core.CodeOf(err) != core.CodeDigestMismatch {
		t.Error(err)
	}
	if err := decision(true, a.Digest); err != nil {
		t.Fatal(err)
	}
	if err := decision(false, a.Digest); core.CodeOf(err) != core.CodeAlreadyDecided || core.AsError(err).Decided.Who != "you" {
		t.Error(err)
	}
	for range 20 {
		clock.now = clock.now.Add(time.Second)
		b.Step()
	}
	if w := must[core.Workflow](t)(b.Workflow(t.Context(), a.RunID)); w.State != core.RunComplete {
		t.Errorf("the run is %s", w.State)
	}
	rows := must[[]core.AuditRow](t)(b.Audit(t.Context(), api.AuditQuery{}))
	if last := rows[len(rows)-1]; last.Outcome != core.ApprovalApproved || last.ApprovalID != a.ID {
		t.Errorf("%+v", last)
	}
}

// TestDemo_Answers: what an answer says beyond yes happens: a call that may have run is skipped with the result that was
// given, other arguments are those of the task, and what is remembered is not asked about again.
func TestDemo_Answers(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	decide := func(kind core.ApprovalType, answer core.Answer) (tasks []core.Task) {
		t.Helper()
		open := must[[]core.Approval](t)(b.Approvals(t.Context(), false))
		a := open[slices.IndexFunc(open, func(a core.Approval) bool { return a.Type == kind })]
		digest := a.Digest
		if len(answer.Arguments) > 0 {
			digest = must[core.Approval](t)(b.Edited(t.Context(), a.ID, answer.Arguments)).Digest
		}
		must[api.Result](t)(b.Continue(t.Context(), api.ContinueRequest{ID: a.RunID, By: you, Decision: &api.Decision{Approve: true, Checkpoint: a.ID, ExpectDigest: digest, Answer: &answer}}))
		clock.now = clock.now.Add(time.Second)
		b.Step()
		for _, l := range must[core.Workflow](t)(b.Workflow(t.Context(), a.RunID)).Layers {
			tasks = append(tasks, l.Tasks...)
		}
		return tasks
	}
	skipped := decide(core.ApproveInDoubt, core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"id":7}`)})
	if task := skipped[0]; string(task.Output) != `{"id":7}` || task.Attempt != 0 || task.State != core.TaskSuccess {
		t.Errorf("%+v", task)
	}
	changed := decide(core.ApproveTool, core.Answer{Arguments: json.RawMessage(`{"n":1}`), Remember: core.RememberSession})
	i := slices.IndexFunc(changed, func(c core.Task) bool { return string(c.Arguments) == `{"n":1}` })
	if i < 0 {
		t.Fatalf("%+v", changed)
	}
	for range 120 {
		clock.now = clock.now.Add(time.Second)
		b.Step()
	}
	for _, a := range must[[]core.Approval](t)(b.Approvals(t.Context(), false)) {
		if a.Tool == changed[i].Tool && a.Type == core.ApproveTool && a.CreatedAt.After(*changed[i].EndedAt) {
			t.Errorf("asked about again: %s", a.RunName)
		}
	}
}

// TestDemo_Halted: while calls are halted nothing moves and nothing expires.
func TestDemo_Halted(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	open := must[[]core.Approval](t)(b.Approvals(t.Context(), false))
	runs := must[api.Page[core.Run]](t)(b.Workflows(t.Context(), nil, 100, "")).Items
	must[[]core.Halt](t)(b.HaltCalls(t.Context(), you, "wait"))
	for range 3600 {
		clock.now = clock.now.Add(time.Second)
		b.Step()
	}
	for i, r := range must[api.Page[core.Run]](t)(b.Workflows(t.Context(), nil, 100, "")).Items {
		if r.ID != runs[i].ID || r.State != runs[i].State || r.CurrentLayer != runs[i].CurrentLayer {
			t.Errorf("while halted %s became %s", r.Name, r.State)
		}
	}
	must[[]core.Halt](t)(b.ResumeCalls(t.Context(), api.ResumeRequest{}))
	if again := must[[]core.Approval](t)(b.Approvals(t.Context(), false)); len(again) != len(open) {
		t.Errorf("%d wait, %d did before", len(again), len(open))
	}
}

// TestDemo_Expired: what has expired is decided all the same, as another approval, and
// once.
func TestDemo_Expired(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	a := must[[]core.Approval](t)(b.Approvals(t.Context(), false))[0]
	clock.now = clock.now.Add(time.Hour)
	must[api.Result](t)(b.Continue(t.Context(), api.ContinueRequest{ID: a.RunID, By: you, Decision: &api.Decision{Approve: true, Checkpoint: a.ID}}))
	var old, again core.Approval
	for _, one := range must[[]core.Approval](t)(b.Approvals(t.Context(), true)) {
		switch {
		case one.ID == a.ID:
			old = one
		case one.Renews == a.ID:
			again = one
		}
	}
	if old.State != core.ApprovalExpired || again.State != core.ApprovalApproved || again.ID != old.RenewedBy {
		t.Errorf("%+v %+v", old, again)
	}
	if _, err := b.Renew(t.Context(), again.ID, you); core.CodeOf(err) != core.CodeNotWaiting {
		t.Error(err)
	}
}

// TestDemo_Events: who follows sees each event of each half once and in order.
func TestDemo_Events(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan core.Event, 10_000)
	done := make(chan error)
	go func() {
		done <- b.Events(ctx, "", api.Since{}, true, func(e core.Event) error { seen <- e; return nil })
	}()
	clock.now = clock.now.Add(time.Second)
	b.Step()
	last := map[core.Side]int64{}
	for complete := 0; complete < 3; {
		e := <-seen
		if e.Seq != last[e.Side]+1 {
			t.Fatalf("%s %d after %d", e.Side, e.Seq, last[e.Side])
		}
		last[e.Side] = e.Seq
		if e.Type == core.EventTaskComplete {
			complete++
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestDemo_KeysFound: the key that is asked for appears after half a minute; it
// is looked for in the client's approvals only.
func TestDemo_KeysFound(t *testing.T) {
	t.Parallel()
	b, clock := begin(t)
	open := must[[]core.Approval](t)(b.Approvals(t.Context(), false))
	of := func(typ core.ApprovalType) core.ID {
		return open[slices.IndexFunc(open, func(a core.Approval) bool { return a.Type == typ })].ID
	}
	for _, step := range []struct {
		wait time.Duration
		want []string
	}{{0, []string{}}, {29 * time.Second, []string{}}, {time.Second, []string{"TAVILY_API_KEY"}}} {
		clock.now = clock.now.Add(step.wait)
		if got := must[[]string](t)(b.KeysFound(t.Context(), of(core.ApproveKeys))); got == nil || !slices.Equal(got, step.want) {
			t.Errorf("after %v: %#v", step.wait, got)
		}
	}
	for _, id := range []core.ID{of(core.ApproveTool), "nobody"} {
		if got := must[[]string](t)(b.KeysFound(t.Context(), id)); got != nil {
			t.Errorf("%s: %v", id, got)
		}
	}
}
