package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What a run logs reaches the client that has set a level, before the result;
// without a level nothing does.
func TestLogging(t *testing.T) {
	t.Parallel()
	for level, want := range map[string][]string{
		"": nil, "error": {"boom"}, "warning": {"careful", "boom"}, "info": {"hello", "careful", "boom"}, "debug": {"hello", "debug: fine", "careful", "boom"},
	} {
		f := &fake{t: t}
		log := func(seq int64, text string) core.Event {
			return core.Event{Seq: seq, Type: core.EventTaskLog, RunID: runID, Message: text, At: newClock().Now()}
		}
		lines := []core.Event{log(1, "hello"), log(2, "debug: fine"), log(3, "warn: careful"), log(4, "error: boom")}
		b := &logging{fake: f, lines: lines}
		f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
			req.Started(runID)
			return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
		}
		w := dial(t, newEdge(t, b, nil))
		w.send(initialize)
		w.next()
		if level != "" {
			w.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"` + level + `"}}`)
			if m := w.next(); string(m.Result) != "{}" {
				t.Fatalf("%s: %+v", level, m)
			}
		}
		w.send(callLine("3", "execute", `{"code":"1"}`, ""))
		var got []string
		m := w.next()
		for ; len(m.ID) == 0; m = w.next() {
			var p struct {
				Level  string
				Logger string
				Data   struct{ Message string }
			}
			if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "notifications/message" || p.Logger != "pml" || p.Level == "" {
				t.Errorf("%s: got %+v", level, m)
			}
			got = append(got, p.Data.Message)
		}
		if len(got) != len(want) {
			t.Errorf("%q: got %q, want %q", level, got, want)
			continue
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q: got %q, want %q", level, got, want)
			}
		}
	}
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for _, level := range []string{`"loud"`, `null`, `7`} {
		w.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":` + level + `}}`)
		if m := w.next(); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %+v", level, m)
		}
	}
}

// logging is a backend whose events are there to be read.
type logging struct {
	*fake
	lines []core.Event
}

func (l *logging) Events(ctx context.Context, _ core.ID, from api.Since, follow bool, each func(core.Event) error) error {
	since := from.Any
	for _, ev := range l.lines {
		if ev.Seq <= since {
			continue
		}
		if err := each(ev); err != nil {
			return err
		}
	}
	if follow {
		<-ctx.Done()
	}
	return ctx.Err()
}
