package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// asker is a run that waits for approvals, one after the other.
type asker struct {
	*fake
	waits  []core.Approval
	refuse error // of decisions

	mu      sync.Mutex
	taken   []api.ContinueRequest // with a decision
	started int
}

// oneApproval is what the tests ask for.
func oneApproval() core.Approval {
	return core.Approval{
		ID: approvalID, RunID: runID, Type: core.ApproveTool, Tool: "s:t", Risk: core.RiskMedium, Description: "call s:t",
		Context: json.RawMessage(`{"tool":"s:t","arguments":{"text":"a\u001b[2Jb"}}`), Digest: "sha256:d1", State: core.ApprovalOpen,
	}
}

func newAsker(t *testing.T, waits ...core.Approval) *asker {
	t.Helper()
	a := &asker{fake: &fake{t: t}, waits: waits}
	a.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
		if req.HoldApprovals {
			t.Error("a call whose client can be asked is held")
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.started++
		if req.Started != nil {
			req.Started(runID)
		}
		return a.stands(api.StatusSuccess), nil
	}
	a.proceed = func(_ context.Context, req api.ContinueRequest) (api.Result, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if req.Decision != nil {
			a.taken = append(a.taken, req)
			if a.refuse != nil {
				return api.Result{}, a.refuse
			}
			if len(a.waits) > 0 && a.waits[0].ID == req.Decision.Checkpoint {
				a.waits = a.waits[1:]
			}
		}
		return a.stands(api.StatusComplete), nil
	}
	a.workflow = func(id core.ID) (core.Workflow, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return core.Workflow{Run: core.Run{ID: id, State: core.RunWaiting}, Approvals: append([]core.Approval{}, a.waits...)}, nil
	}
	return a
}

// stands is how the run stands; the caller holds the lock.
func (a *asker) stands(done api.Status) api.Result {
	if len(a.waits) == 0 {
		return api.Result{Status: done, WorkflowID: runID, Result: json.RawMessage(`42`)}
	}
	first := a.waits[0]
	return api.Result{
		Status: api.StatusApprovalRequired, WorkflowID: runID, CheckpointID: first.ID, ApprovalType: first.Type,
		Description: first.Description, Context: first.Context, Digest: first.Digest, Pending: append([]core.Approval{}, a.waits...),
	}
}

func (a *asker) decisions() []api.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []api.Decision
	for _, req := range a.taken {
		if req.By.Via != core.ViaElicitation {
			a.t.Errorf("a decision came by %s", req.By.Via)
		}
		out = append(out, *req.Decision)
	}
	return out
}

// handshake is initialize with capabilities.
func handshake(capabilities string) string {
	return strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+capabilities, 1)
}

const elicits = `{"elicitation":{}}`

// asking dials an edge with a clock that a test sets, as a client that can be
// asked.
func asking(t *testing.T, b mcp.Backend, capabilities string) (*wire, *clock) {
	t.Helper()
	now := newClock()
	w := dial(t, newEdge(t, b, func(o *mcp.Options) { o.Clock = now }))
	w.send(handshake(capabilities))
	w.next()
	return w, now
}

// said is the answer of a host to a question.
func said(m msg, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`
}

// An older client that declares elicitation is asked; what it answers decides,
// or does not.
func TestElicit_Answers(t *testing.T) {
	t.Parallel()
	approve := []api.Decision{{Approve: true, Checkpoint: approvalID, ExpectDigest: "sha256:d1"}}
	denied := []api.Decision{{Checkpoint: approvalID, ExpectDigest: "sha256:d1"}}
	tests := []struct {
		name, answer string
		took         time.Duration
		want         []api.Decision
		why          string // part of the reason, where it stays open
	}{
		{"Approve", `{"action":"accept","content":{"approve":true}}`, time.Second, approve, ""},
		{"JustSeen", `{"action":"accept","content":{"approve":true}}`, 300 * time.Millisecond, approve, ""},
		{"No", `{"action":"accept","content":{"approve":false}}`, time.Second, denied, ""},
		{"Decline", `{"action":"decline"}`, time.Second, denied, ""},
		{"InstantDecline", `{"action":"decline"}`, 299 * time.Millisecond, nil, "without showing"},
		{"InstantAccept", `{"action":"accept","content":{"approve":true}}`, 15 * time.Millisecond, nil, "without showing"},
		{"ClockSetBack", `{"action":"accept","content":{"approve":true}}`, -time.Hour, nil, "without showing"},
		{"Cancel", `{"action":"cancel"}`, time.Second, nil, "dismissed"},
		{"TextForYes", `{"action":"accept","content":{"approve":"true"}}`, time.Second, nil, "without a yes or no"},
		{"NullForYes", `{"action":"accept","content":{"approve":null}}`, time.Second, nil, "without a yes or no"},
		{"Empty", `{"action":"accept"}`, time.Second, nil, "without a yes or no"},
		{"OtherAction", `{"action":"approve","content":{"approve":true}}`, time.Second, nil, "neither"},
		{"Garbage", `"yes"`, time.Second, nil, "cannot be read"},
		{"GarbageContent", `{"action":"accept","content":[true]}`, time.Second, nil, "cannot be read"},
		{"Null", `null`, time.Second, nil, "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, oneApproval())
			w, now := asking(t, a, elicits)
			w.send(callLine("1", "execute", `{"code":"1"}`, ""))
			q := w.next()
			if q.Method != "elicitation/create" {
				t.Fatalf("no question came: %+v", q)
			}
			now.add(tt.took)
			w.send(said(q, tt.answer))
			tr, r := w.next().result(t)
			if diff := cmp.Diff(tt.want, a.decisions()); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
			switch {
			case tt.why == "" && (r.Status != api.StatusSuccess || string(r.Result) != "42"):
				t.Errorf("got %+v", r)
			case tt.why != "" && (r.Status != api.StatusApprovalRequired || tr.IsError || !strings.Contains(r.Reason, tt.why) || !strings.Contains(r.Reason, "pml tui")):
				t.Errorf("got %+v", r)
			}
		})
	}
}

// What the person sees says exactly what is asked, and nothing in it can move a
// cursor.
func TestElicit_Shown(t *testing.T) {
	t.Parallel()
	a := oneApproval()
	a.Description = "call\nTo approve, type nothing"
	w, _ := asking(t, newAsker(t, a), elicits)
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	var p struct {
		Mode    string
		Message string
		Schema  struct {
			Type       string
			Properties map[string]map[string]any
			Required   []string
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(w.next().Params, &p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tool_permission", "s:t", "medium", `\u001b[2J`, "sha256:d1", "5c3f77aa", "0b9d2a4e"} {
		if !strings.Contains(p.Message, want) {
			t.Errorf("%q is not in the message:\n%s", want, p.Message)
		}
	}
	if strings.ContainsRune(p.Message, 0x1b) || strings.Contains(p.Message, "\nTo approve") {
		t.Errorf("foreign text forges the message: %q", p.Message)
	}
	if p.Mode != "" || p.Schema.Type != "object" || p.Schema.Properties["approve"]["type"] != "boolean" || len(p.Schema.Properties) != 1 || !cmp.Equal(p.Schema.Required, []string{"approve"}) {
		t.Errorf("the form is %+v", p)
	}
}

// TestElicit_ArgumentsFirst: hosts show the first lines of a message and fold the
// rest (Claude Code 2.1.330 shows three), so the arguments stand there, on one
// line where they are short.
func TestElicit_ArgumentsFirst(t *testing.T) {
	t.Parallel()
	long := `{"content":"` + strings.Repeat("x", 1000) + `","path":"a\nb"}`
	for name, tt := range map[string]struct{ context, want string }{ // "short" ones fit into a line
		"short": {
			`{"tool":"s:t","leaves_workspace":false,"arguments":{"path":"a\nTo approve"}}`,
			"arguments: {\"path\":\"a\\nTo approve\"}\nleaves_workspace: false\ntool: \"s:t\"\n",
		},
		"long": {
			`{"arguments":` + long + `,"z":[1, 2]}`,
			"arguments: {\n  \"content\": \"" + strings.Repeat("x", 1000) + "\",\n  \"path\": \"a\\nb\"\n}\nz: [1,2]\n",
		},
		"no object":    {`["a"]`, "[\n  \"a\"\n]\n"},
		"no arguments": {`{"b":1,"a":2}`, "a: 2\nb: 1\n"},
		"another name": {`{"To approve,\ntype nothing":1,"a":2}`, "\"To approve,\\ntype nothing\": 1\na: 2\n"},
		"nothing":      {``, "Run "},
	} {
		a := oneApproval()
		a.Context, a.RequestedBy = json.RawMessage(tt.context), core.Actor{}
		w, _ := asking(t, newAsker(t, a), elicits)
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		var p struct {
			Message string
			Schema  struct {
				Properties map[string]struct{ Description string }
			} `json:"requestedSchema"`
		}
		if err := json.Unmarshal(w.next().Params, &p); err != nil {
			t.Fatal(err)
		}
		told := strings.Contains(p.Schema.Properties["approve"].Description, "look in pml tui")
		if fits := name == "short" || name == "nothing"; told == fits {
			t.Errorf("%s: the field says %+v", name, p.Schema.Properties)
		}
		const head = "pml asks: tool_permission for s:t (risk: medium)\ncall s:t\n"
		if !strings.HasPrefix(p.Message, head+tt.want) {
			t.Errorf("%s: the message is\n%s\nwant it to begin with\n%s", name, p.Message, head+tt.want)
		}
	}
}

// What is of high risk is approved by typing, as in the terminal; a no needs
// nothing typed.
func TestElicit_High(t *testing.T) {
	t.Parallel()
	integrity := oneApproval()
	integrity.Type, integrity.Risk, integrity.Context = core.ApproveIntegrity, core.RiskHigh, json.RawMessage(`{"new_hash":"sha256:9F04e77b"}`)
	plain := oneApproval()
	plain.Risk = "unheard of"
	for _, tt := range []struct {
		name    string
		a       core.Approval
		content string
		decides bool
	}{
		{"Hash", integrity, `{"confirm":" 9f04 "}`, true},
		{"NoHash", integrity, `{"approve":true}`, false},
		{"OtherHash", integrity, `{"confirm":"9f05"}`, false},
		{"Run", plain, `{"confirm":"0B9D"}`, true},
		{"NoRun", plain, `{"confirm":true}`, false},
		{"Deny", integrity, `{"confirm":"Deny"}`, true},
		{"OtherField", integrity, `{"approve":false}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, tt.a)
			w, now := asking(t, a, elicits)
			w.send(callLine("1", "execute", `{"code":"1"}`, ""))
			q := w.next()
			now.add(time.Second)
			w.send(said(q, `{"action":"accept","content":`+tt.content+`}`))
			_, r := w.next().result(t)
			if got := len(a.decisions()) == 1; got != tt.decides || tt.decides != (r.Status == api.StatusSuccess) {
				t.Errorf("decided %v: %+v", got, r)
			}
		})
	}
}

// A call in doubt is made again by what is typed, or fails.
func TestElicit_InDoubt(t *testing.T) {
	t.Parallel()
	doubt := oneApproval()
	doubt.Type, doubt.Risk = core.ApproveInDoubt, core.RiskHigh
	for content, want := range map[string]*api.Decision{
		`{"confirm":"0b9d"}`: {Approve: true, Answer: &core.Answer{InDoubt: core.RunAgain}},
		`{"confirm":"deny"}`: {},
		`{"confirm":""}`:     nil,
		`{"approve":true}`:   nil,
	} {
		a := newAsker(t, doubt)
		w, now := asking(t, a, elicits)
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		q := w.next()
		now.add(time.Second)
		w.send(said(q, `{"action":"accept","content":`+content+`}`))
		w.next()
		got := a.decisions()
		if want == nil {
			if len(got) > 0 {
				t.Errorf("%s decided %+v", content, got)
			}
			continue
		}
		want.Checkpoint, want.ExpectDigest = approvalID, "sha256:d1"
		if diff := cmp.Diff([]api.Decision{*want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", content, diff)
		}
	}
}

// A form never has more than one field, so that hosts that want all fields filled
// in can send it, and what it cannot show whole it cannot approve.
func TestElicit_Form(t *testing.T) {
	t.Parallel()
	long, tool, high, doubt, told := oneApproval(), oneApproval(), oneApproval(), oneApproval(), oneApproval()
	long.Risk, long.Context = core.RiskHigh, json.RawMessage(`{"arguments":"`+strings.Repeat("x", 4000)+`rm -rf"}`)
	tool.Tool = "s:" + strings.Repeat("t", 200)
	told.Description = strings.Repeat("d", 1001)
	high.Risk = core.RiskHigh
	doubt.Type = core.ApproveInDoubt
	for name, tt := range map[string]struct {
		a     core.Approval
		field string
	}{"whole": {oneApproval(), "approve"}, "high": {high, "confirm"}, "in doubt": {doubt, "confirm"}, "arguments": {long, "deny"}, "tool": {tool, "deny"}, "description": {told, "deny"}} {
		for content, no := range map[string]bool{`{"approve":true,"confirm":"0b9d","deny":false}`: false, `{"deny":true}`: true} {
			a := newAsker(t, tt.a)
			w, now := asking(t, a, elicits)
			w.send(callLine("1", "execute", `{"code":"1"}`, ""))
			q := w.next()
			var p struct {
				Message string
				Schema  struct{ Properties map[string]any } `json:"requestedSchema"`
			}
			if err := json.Unmarshal(q.Params, &p); err != nil || len(p.Schema.Properties) != 1 || p.Schema.Properties[tt.field] == nil {
				t.Fatalf("%s: %v, the form is %s", name, err, q.Params)
			}
			if tt.field != "deny" {
				w.send(said(q, `{"action":"cancel"}`))
				w.next()
				continue
			}
			if strings.Contains(p.Message, "To approve") || !strings.Contains(p.Message, "pml tui") || strings.Contains(p.Message, "rm -rf") {
				t.Errorf("%s: it asks %q", name, p.Message)
			}
			now.add(time.Second)
			w.send(said(q, `{"action":"accept","content":`+content+`}`))
			_, r := w.next().result(t)
			got := a.decisions()
			if no && (len(got) != 1 || got[0].Approve) || !no && (len(got) != 0 || !strings.Contains(r.Reason, "could not show all of it")) {
				t.Errorf("%s: %s decided %+v: %+v", name, content, got, r)
			}
		}
	}
}

// Several approvals are asked about one after the other; where one stays open,
// the rest is not asked about.
func TestElicit_OneByOne(t *testing.T) {
	t.Parallel()
	second, third := oneApproval(), oneApproval()
	second.ID, second.Digest = "5c3f77aa-2222-4bbb-8bbb-000000000003", "sha256:d2"
	third.ID, third.Digest = "5c3f77aa-2222-4bbb-8bbb-000000000004", "sha256:d3"
	a := newAsker(t, oneApproval(), second, third)
	w, now := asking(t, a, elicits)
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	ids := map[string]bool{}
	for i, answer := range []string{`{"action":"accept","content":{"approve":true}}`, `{"action":"decline"}`, `{"action":"cancel"}`} {
		q := w.next()
		if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), []string{"sha256:d1", "sha256:d2", "sha256:d3"}[i]) {
			t.Fatalf("question %d: %+v", i, q)
		}
		ids[string(q.ID)] = true
		now.add(time.Second)
		w.send(said(q, answer))
	}
	if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired || r.CheckpointID != third.ID {
		t.Errorf("got %+v", r)
	}
	got := a.decisions()
	if len(got) != 2 || !got[0].Approve || got[1].Approve || got[1].Checkpoint != second.ID || len(ids) != 3 {
		t.Errorf("%d ids, decided %+v", len(ids), got)
	}
}

// Nobody is asked who has not declared it, and a missing key is never asked for
// in a form.
func TestElicit_NotAsked(t *testing.T) {
	t.Parallel()
	keys, sign := oneApproval(), oneApproval()
	keys.Type = core.ApproveKeys
	sign.Type, sign.Context = core.ApproveOAuth, json.RawMessage(`{"auth_url":"https://auth.test/a?b=c"}`)
	for _, tt := range []struct {
		name, capabilities string
		a                  core.Approval
	}{
		{"Nothing", `{}`, oneApproval()},
		{"Null", `{"elicitation":null}`, oneApproval()},
		{"Sampling", `{"sampling":{}}`, oneApproval()},
		{"OnlyURL", `{"elicitation":{"url":{}}}`, oneApproval()},
		{"Keys", `{"elicitation":{"form":{},"url":{}}}`, keys},
		{"OnlyForm", `{"elicitation":{"form":{}}}`, sign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAsker(t, tt.a)
			w, _ := asking(t, a, tt.capabilities)
			w.send(callLine("1", "execute", `{"code":"1"}`, ""))
			if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired || r.Reason != "" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A sign-in is a page to open. That it was opened decides nothing; the call goes
// on when the sign-in is complete.
func TestElicit_URL(t *testing.T) {
	t.Parallel()
	sign := oneApproval()
	sign.Type, sign.Context = core.ApproveOAuth, json.RawMessage(`{"auth_url":"https://auth.test/a?b=c"}`)
	a := newAsker(t, sign)
	resolved := make(chan struct{})
	a.events = func(ctx context.Context, each func(core.Event) error) error {
		select {
		case <-resolved:
			return each(core.Event{Type: core.EventApprovalResolved, RunID: runID, ApprovalID: approvalID})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w, now := asking(t, a, `{"elicitation":{"url":{}}}`)
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	q := w.next()
	if !strings.Contains(string(q.Params), `"mode":"url"`) || !strings.Contains(string(q.Params), `"url":"https://auth.test/a?b=c"`) || strings.Contains(string(q.Params), "requestedSchema") {
		t.Errorf("asked %s", q.Params)
	}
	now.add(time.Second)
	w.send(said(q, `{"action":"accept"}`))
	w.send(ping)
	w.next() // the answer before it has been read
	a.mu.Lock()
	a.waits = nil
	a.mu.Unlock()
	close(resolved)
	if _, r := w.next().result(t); r.Status != api.StatusSuccess || len(a.decisions()) != 0 {
		t.Errorf("got %+v", r)
	}
}
