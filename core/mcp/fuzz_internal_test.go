package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC) }

func fuzzEdge(tb testing.TB) *Edge {
	tb.Helper()
	e, err := New(Options{
		Backend:  func(api.Scope) (Backend, error) { return nil, core.Errorf(core.CodeInternal, "none") },
		Scope:    Fixed(api.Scope{}),
		Validate: func(json.RawMessage, json.RawMessage) []core.Fault { return nil },
		Clock:    fixedClock{},
		Secret:   []byte("a secret of 32 bytes, more or les"),
		Random:   bytes.NewReader(make([]byte, 1<<10)), // the same in every process of the fuzzer
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// Whatever a client sends is a message or is refused with an id that is its own.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"pml-1","result":null}`, `[]`, `{`, `{"jsonrpc":"2.0","id":{},"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"_meta":{"progressToken":1.0,"a":null},"requestState":{},"inputResponses":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	e := fuzzEdge(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, bad := parse(raw)
		if bad != nil {
			if said := bad.Encode(); !json.Valid(said) || bytes.ContainsAny(said, "\r\n") {
				t.Errorf("%q is refused by %q", raw, said)
			}
			return
		}
		if !json.Valid(raw) {
			t.Errorf("not JSON: %q", raw)
		}
		if m.isRequest() && !json.Valid(m.request(m.Message.Params)) {
			t.Errorf("%q passes on %q", raw, m.request(m.Message.Params))
		}
		passed := m.Params.Meta.passed()
		if len(passed) > 0 && (!json.Valid(passed) || bytes.Contains(passed, []byte(`"progressToken":`)) && strings.Count(string(m.Params.Meta.raw), "progressToken") == 1) {
			t.Errorf("passes %s of %s", passed, m.Params.Meta.raw)
		}
		s := newSession("s", holder{}, fixedClock{}.Now())
		s.asked.Answered(m.Message)
		c := e.newCall(s, m, &stream{})
		_ = c.digest()
	})
}

// Nothing but what the edge has sealed is ever read as a state.
func FuzzState(f *testing.F) {
	e := fuzzEdge(f)
	good, err := e.states.sealed(state{Run: "r", Approval: "a", Expires: fixedClock{}.Now().Add(time.Hour).UnixMilli()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[1:])
	f.Add(".")
	f.Add(strings.ToUpper(good))
	f.Fuzz(func(t *testing.T, text string) {
		st, err := e.states.unsealed(text)
		if (err == nil) != (text == good) {
			t.Errorf("%q: %+v, %v", text, st, err)
		}
		if err != nil && (st != state{} || core.CodeOf(err) != core.CodePermissionDenied) {
			t.Errorf("%q: %+v, %v", text, st, err)
		}
	})
}

// An answer decides only by a clear yes or no; a yes to what is of high risk
// only with what must be typed.
func FuzzHeard(f *testing.F) {
	for _, seed := range []string{
		`{"action":"accept","content":{"approve":true,"confirm":"0b9d"}}`, `{"action":"decline"}`, `{"action":"cancel"}`, `null`, `[]`,
		`{"action":"accept","content":{"deny":true,"confirm":"deny"}}`, `{"action":["accept"],"content":{"approve":"true"}}`,
	} {
		f.Add([]byte(seed), int64(time.Second), true)
		f.Add([]byte(seed), int64(time.Millisecond), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, took int64, high bool) {
		a := core.Approval{ID: "5c3f77aa", RunID: "0b9d2a4e", Type: core.ApproveTool, Risk: core.RiskLow, Digest: "d"}
		if high {
			a.Risk = core.RiskHigh
		}
		q, _ := questionOf(a, abilities{form: true})
		v := q.heard(raw, time.Duration(took))
		if (v.decision == nil) != (v.why != "") || v.opened {
			t.Fatalf("%s: %+v", raw, v)
		}
		if v.decision == nil {
			return
		}
		var said struct {
			Action  string
			Content struct {
				Approve any    `json:"approve"`
				Confirm string `json:"confirm"`
			}
		}
		_ = json.Unmarshal(raw, &said)
		switch {
		case time.Duration(took) < instant, v.decision.ExpectDigest != "d", v.decision.Checkpoint != a.ID, v.decision.AllOfType != "", v.decision.Answer != nil:
			t.Errorf("%s after %d: %+v", raw, took, v.decision)
		case v.decision.Approve && (!strings.EqualFold(said.Action, "accept") || !high && said.Content.Approve != true || high && !strings.EqualFold(strings.TrimSpace(said.Content.Confirm), "0b9d")):
			t.Errorf("%s approves", raw)
		}
	})
}
