package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
)

// hand is a clock that a test moves.
type hand struct {
	mu sync.Mutex
	at time.Time
}

func newHand() *hand { return &hand{at: time.UnixMilli(1767323045000)} }

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hand) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// effects are the effects of a script that does nothing else.
func effects(list string) string { return `return {effects: [` + list + `]}` }

// The limit of a counter holds for all processes, and for its time.
func TestEffect_Count(t *testing.T) {
	t.Parallel()
	clock := newHand()
	r := newRig(t, func(o *hook.Options) { o.Clock = clock })
	other := newRig(t, func(o *hook.Options) { o.Clock, o.Store = clock, r.store })
	set := setOf(t, line("f", "", script("x", effects(`{tool: "count", arguments: {key: context.request.params.name, limit: 3, seconds: 60}}`), false)))
	before := func(r *rig) error {
		_, err := r.Before(context.Background(), set, request(`{}`))
		return err
	}
	for i, r := range []*rig{r, other, r} {
		if err := before(r); err != nil {
			t.Fatal(i, err)
		}
	}
	clock.move(20 * time.Second)
	if err := before(other); core.CodeOf(err) != core.CodeDenied || !strings.Contains(err.Error(), "limit of 3 within 60 seconds; try again in 40s") {
		t.Error(err)
	}
	clock.move(40 * time.Second)
	if err := before(r); err != nil {
		t.Error(err)
	}
}

// Whoever chooses the keys does not get past a limit: no counter goes before its time,
// new keys share one where there are too many, and room comes back when windows end.
func TestEffect_CountManyKeys(t *testing.T) {
	t.Parallel()
	clock := newHand()
	r := newRig(t, func(o *hook.Options) { o.Clock = clock })
	set := setOf(t, line("f", "", script("x", effects(`{tool: "count", arguments: {key: context.request.params.arguments.key, limit: 1, seconds: 60}}`), false)))
	call := func(key string) error {
		_, err := r.Before(context.Background(), set, request(`{"key":"`+key+`"}`))
		return err
	}
	long := strings.Repeat("long ", 2000)
	if err := call(long); err != nil {
		t.Fatal(err)
	}
	clock.move(time.Second)
	for i := range 499 {
		if err := call(fmt.Sprintf("key-%d", i)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := call("one too many"); err != nil { // it is the first that shares
		t.Fatal(err)
	}
	for _, key := range []string{long, "key-0", "key-498", "another"} {
		if err := call(key); core.CodeOf(err) != core.CodeDenied || key == "another" && !strings.Contains(err.Error(), "new keys share one") {
			t.Errorf("%.20s: %v", key, err)
		}
	}
	clock.move(59 * time.Second) // the first window is over, and so are its 60 seconds
	if err := call("yet another"); err != nil {
		t.Error(err)
	}
	if err := call("key-0"); core.CodeOf(err) != core.CodeDenied {
		t.Errorf("its window has not ended: %v", err)
	}
	clock.move(time.Minute)
	for _, key := range []string{"key-0", "new"} {
		if err := call(key); err != nil {
			t.Error(err)
		}
	}
	for _, v := range r.store.vars {
		if len(v.Values) > 4 {
			t.Errorf("%d counters are left of those that ended", len(v.Values))
		}
	}
}

// Callers at the same time do not get past a limit together.
func TestEffect_CountTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := setOf(t, line("f", "", script("x", effects(`{tool: "count", arguments: {limit: 5, seconds: 3600}}`), false)))
	var group sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for range 12 {
		group.Go(func() {
			if _, err := r.Before(context.Background(), set, request(`{}`)); err == nil {
				mu.Lock()
				passed++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if passed != 5 {
		t.Errorf("%d passed", passed)
	}
}

// A result is given in place of the same call of the same owner for a while. Errors
// are not kept.
func TestEffect_Cache(t *testing.T) {
	t.Parallel()
	clock := newHand()
	r := newRig(t, func(o *hook.Options) { o.Clock = clock })
	cached := effects(`{tool: "cache", arguments: {seconds: 60}}`)
	set := setOf(t, line("f", "", script("look", cached, false), script("store", cached, true)))
	calls := 0
	call := func(change func(*flow.Request), result string) string {
		req := request(`{"path":"a"}`)
		change(&req)
		p, err := r.Before(context.Background(), set, req)
		if err != nil {
			t.Fatal(err)
		}
		answer := flow.Answer{Result: p.Response}
		if len(p.Response) == 0 {
			calls++
			answer.Result = json.RawMessage(result)
		}
		return string(r.After(context.Background(), set, req, p, answer).Result)
	}
	none := func(*flow.Request) {}
	call(none, `{"content":[],"isError":true}`)
	for range 3 {
		if got := call(none, `{"content":[{"type":"text","text":"1"}]}`); !strings.Contains(got, `"1"`) {
			t.Errorf("%s", got)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls were made", calls)
	}
	for i, change := range []func(*flow.Request){
		func(r *flow.Request) { r.Owner = "you" }, func(r *flow.Request) { r.Workspace = "/other" },
		func(r *flow.Request) { r.Tool = "files:read" }, func(r *flow.Request) { r.Args = json.RawMessage(`{"path":"b"}`) },
		func(*flow.Request) { clock.move(time.Minute) },
	} {
		calls = 0
		if call(change, `{"content":[{"type":"text","text":"2"}]}`); calls != 1 {
			t.Errorf("%d: it got the result of another call", i)
		}
	}
}

// Tools are called that the flow lists, with the call that it looks at; a failure is
// that of the hook.
func TestEffect_Tool(t *testing.T) {
	t.Parallel()
	var calls []hook.ToolCall
	var fail error
	r := newRig(t, func(o *hook.Options) {
		o.Tool = func(_ context.Context, c hook.ToolCall) (core.ID, error) {
			calls = append(calls, c)
			return "", fail
		}
	})
	set := setOf(t, line("f", `"uses":["chat:post"]`, script("x", effects(`{tool: "chat:post", arguments: {text: "seen"}}`), false)))
	if _, err := r.Before(context.Background(), set, request(`{}`)); err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || calls[0].Tool != "chat:post" || string(calls[0].Args) != `{"text":"seen"}` || calls[0].Flow != "f" || calls[0].Request.RunID != "r1" || calls[0].FlowRun == "" {
		t.Errorf("%+v", calls)
	}
	fail = core.Errorf(core.CodeToolFailed, "the channel is gone")
	if _, err := r.Before(context.Background(), set, request(`{}`)); core.CodeOf(err) != core.CodeHookFailed || !strings.Contains(err.Error(), "the channel is gone") {
		t.Error(err)
	}
	if _, err := newRig(t).Before(context.Background(), set, request(`{}`)); err == nil || !strings.Contains(err.Error(), "not available here") {
		t.Error(err)
	}
}

// An effect that waits for a person is not said to be done: the run of the flow names the
// run that waits.
func TestEffect_ToolWaits(t *testing.T) {
	t.Parallel()
	for waits, want := range map[core.ID]string{
		"": "", "r2": "not done yet: the effect chat:post waits for a person, as the run r2",
	} {
		r := newRig(t, func(o *hook.Options) {
			o.Tool = func(context.Context, hook.ToolCall) (core.ID, error) { return waits, nil }
		})
		set := setOf(t, line("f", `"uses":["chat:post"]`, script("x", effects(`{tool: "chat:post", arguments: {}}`), false)))
		if _, err := r.Before(context.Background(), set, request(`{}`)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range r.runs()[0].Nodes {
			got = append(got, n.Console...)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("waits %q: %q", waits, got)
		}
	}
}

// What a hook logs and notes has no values of keys, and wrong arguments are errors.
func TestEffect_LogAndAudit(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRig(t, func(o *hook.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	set := setOf(t, line("f", "", script("x", effects(`{tool: "log", arguments: {message: "a `+secret+`", level: "warn"}}, {tool: "audit", arguments: {message: "b `+secret+`"}}`), false)))
	if _, err := r.Before(context.Background(), set, request(`{}`)); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, `level=WARN msg="a «KEY»" flow=f node=x tool=files:write`) {
		t.Error(got)
	}
	if rows := r.store.audit; len(rows) != 1 || rows[0].Reason != "b «KEY»" || rows[0].Tool != "files:write" || rows[0].RunID != "r1" {
		t.Errorf("%+v", r.store.audit)
	}
	for _, wrong := range []string{
		`{tool: "log", arguments: {message: 1}}`, `{tool: "log", arguments: {text: "x"}}`, `{tool: "log", arguments: {message: "x", level: "loud"}}`,
		`{tool: "audit", arguments: {}}`, `{tool: "count", arguments: {limit: 0, seconds: 1}}`, `{tool: "count", arguments: {limit: 1, seconds: -1}}`,
		`{tool: "cache", arguments: {seconds: 0}}`, `{tool: "mail", arguments: {}}`, `{tool: "log", arguments: null}`,
	} {
		if _, err := r.Before(context.Background(), setOf(t, line("f", "", script("x", effects(wrong), false))), request(`{}`)); core.CodeOf(err) != core.CodeHookFailed {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
