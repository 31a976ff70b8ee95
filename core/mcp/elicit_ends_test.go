package mcp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// Somebody who decides in the terminal is faster than the host: its question is
// taken back, and the call goes on.
func TestElicit_DecidedElsewhere(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	resolved := make(chan struct{})
	a.events = func(ctx context.Context, each func(core.Event) error) error {
		select {
		case <-resolved:
			return each(core.Event{Type: core.EventApprovalResolved, RunID: runID, ApprovalID: approvalID})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w, _ := asking(t, a, elicits)
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	q := w.next()
	a.mu.Lock()
	a.waits = nil
	a.mu.Unlock()
	close(resolved)
	taken := w.next()
	if taken.Method != "notifications/cancelled" || !strings.Contains(string(taken.Params), string(q.ID)) {
		t.Errorf("the question was not taken back: %+v", taken)
	}
	if _, r := w.next().result(t); r.Status != api.StatusSuccess || len(a.decisions()) != 0 {
		t.Errorf("got %+v", r)
	}
	w.send(said(q, `{"action":"decline"}`)) // too late, and nothing comes of it
	w.send(ping)
	if m := w.next(); string(m.Result) != "{}" {
		t.Errorf("got %+v", m)
	}
}

// A host that does not answer is waited for as long as the approval is open, or
// as long as the call says that it waits: then the question is taken back.
func TestElicit_NoAnswer(t *testing.T) {
	t.Parallel()
	now, expired := newClock(), oneApproval()
	soon := now.Now().Add(20 * time.Millisecond)
	expired.ExpiresAt = &soon
	for args, ap := range map[string]core.Approval{`{"code":"1"}`: expired, `{"code":"1","options":{"wait":1}}`: oneApproval()} {
		a := newAsker(t, ap)
		w := dial(t, newEdge(t, a, func(o *mcp.Options) {
			o.Asking, o.Clock = time.Hour, now
			if ap.ExpiresAt == nil {
				o.Asking = time.Millisecond
			}
		}))
		w.send(handshake(elicits))
		w.next()
		w.send(callLine("1", "execute", args, ""))
		asked, cancelled := 0, 0
		m := w.next()
		for ; m.Method != ""; m = w.next() {
			switch m.Method {
			case "elicitation/create":
				asked++
			case "notifications/cancelled":
				cancelled++
			}
		}
		if cancelled != 1 || asked > 1 { // none was sent where the time was over before
			t.Errorf("%s: %d questions, %d taken back", args, asked, cancelled)
		}
		if _, r := m.result(t); r.Status != api.StatusApprovalRequired || !strings.Contains(r.Reason, "did not answer in time") || len(a.decisions()) != 0 {
			t.Errorf("%s: got %+v", args, r)
		}
	}
}

// Where the call says nothing, a question outlives the time that a call waits
// for it at least.
func TestElicit_StaysOpen(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	w := dial(t, newEdge(t, a, func(o *mcp.Options) { o.Asking, o.Beat = time.Nanosecond, 5*time.Millisecond }))
	w.send(handshake(elicits))
	w.next()
	w.send(callLine("1", "execute", `{"code":"1"}`, `{"progressToken":1}`))
	var q msg
	for beats := 0; beats < 3; {
		switch m := w.next(); m.Method {
		case "elicitation/create":
			q = m
		case "notifications/progress":
			beats++ // the call is kept alive
		default:
			t.Fatalf("got %+v", m)
		}
	}
	w.send(said(q, `{"action":"cancel"}`))
	for m := w.next(); ; m = w.next() {
		if m.Method == "" {
			if _, r := m.result(t); !strings.Contains(r.Reason, "without showing") && !strings.Contains(r.Reason, "dismissed") {
				t.Errorf("got %+v", r)
			}
			return
		}
	}
}

// A call that is cancelled takes its question along.
func TestElicit_CallCancelled(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	w, _ := asking(t, a, elicits)
	w.send(callLine("7", "execute", `{"code":"1"}`, ""))
	q := w.next()
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if m := w.next(); m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), string(q.ID)) {
		t.Errorf("got %+v", m)
	}
	w.send(ping)
	if m := w.next(); string(m.ID) != "1" || string(m.Result) != "{}" || len(a.decisions()) != 0 {
		t.Errorf("got %+v", m)
	}
}

// A host whose answers do not count is asked once, and a host that refuses to
// ask is no error.
func TestElicit_Refused(t *testing.T) {
	t.Parallel()
	for _, code := range []core.Code{core.CodeAwaitingHuman, core.CodeAuth, core.CodePermissionDenied} {
		a := newAsker(t, oneApproval())
		a.refuse = core.Errorf(code, "a person decides in a terminal").WithRun(runID)
		w, now := asking(t, a, elicits)
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		q := w.next()
		now.add(time.Second)
		w.send(said(q, `{"action":"accept","content":{"approve":true}}`))
		if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired || !strings.Contains(r.Reason, "a person decides in a terminal") {
			t.Errorf("%s: got %+v", code, r)
		}
		w.send(callLine("2", "continue", `{"workflow_id":"0b9d2a4e"}`, ""))
		if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired {
			t.Errorf("%s: got %+v", code, r)
		}
	}
	a := newAsker(t, oneApproval())
	w, _ := asking(t, a, elicits)
	for _, answer := range []string{
		`"error":{"code":-32601,"message":"no\u001bsuch method"}`, `"error":"no"`, `"error":{"code":1,"message":"x"},"result":{"action":"accept"}`,
	} {
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		w.send(`{"jsonrpc":"2.0","id":` + string(w.next().ID) + `,` + answer + `}`)
		if _, r := w.next().result(t); r.Status != api.StatusApprovalRequired || !strings.Contains(r.Reason, "nothing was decided") || strings.ContainsRune(r.Reason, 0x1b) {
			t.Errorf("%s: got %+v", answer, r)
		}
	}
	if got := a.decisions(); len(got) != 0 {
		t.Errorf("decided %+v", got)
	}
}

// Who wants to wait for people and whose host shows nothing waits for the
// terminal instead.
func TestElicit_ThenWaits(t *testing.T) {
	t.Parallel()
	a := newAsker(t, oneApproval())
	proceed, held := a.proceed, make(chan time.Duration, 1)
	a.proceed = func(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
		if req.HoldApprovals && req.Decision == nil {
			held <- req.Wait
			a.mu.Lock()
			a.waits = nil // somebody decides in the terminal
			a.mu.Unlock()
		}
		return proceed(ctx, req)
	}
	w, _ := asking(t, a, elicits)
	w.send(callLine("1", "execute", `{"code":"1","options":{"wait":3600000}}`, ""))
	w.send(said(w.next(), `{"action":"decline"}`))
	if _, r := w.next().result(t); r.Status != api.StatusSuccess || len(a.decisions()) != 0 {
		t.Errorf("got %+v", r)
	}
	select {
	case wait := <-held:
		if wait != time.Hour {
			t.Errorf("it waited %s", wait)
		}
	default:
		t.Error("nobody waited")
	}
}
