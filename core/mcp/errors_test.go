package mcp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// hiding is a name with characters that move a cursor, end a string or turn the
// order of what follows, as JSON has them.
const hiding = `ex\u001b[2Jec\u0000ut\u202ee\n`

// What a client names and is not there is said without what hides in its name.
func TestUnknown_Names(t *testing.T) {
	t.Parallel()
	const info = `"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for name, tt := range map[string]struct {
		rest string
		code int
	}{
		"tool":       {`"method":"tools/call","params":{"name":"` + hiding + `","arguments":{}}`, -32602},
		"no tool":    {`"method":"tools/call","params":{"arguments":{}}`, -32602},
		"long tool":  {`"method":"tools/call","params":{"name":"` + strings.Repeat(hiding, 100_000) + `"}`, -32602},
		"argument":   {`"method":"tools/call","params":{"name":"execute","arguments":{"` + hiding + `":1}}`, -32602},
		"method":     {`"method":"` + hiding + `"`, -32601},
		"prompt":     {`"method":"prompts/get","params":{"name":"` + hiding + `"}`, -32602},
		"resource":   {`"method":"resources/read","params":{"uri":"` + hiding + `"}`, -32002},
		"completion": {`"method":"completion/complete","params":{"ref":{"type":"` + hiding + `","name":"x"},"argument":{"name":"x","value":""}}`, -32600},
		"revision":   {`"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + hiding + `",` + info + `}}`, -32022},
		"old":        {`"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01",` + info + `}}`, -32022},
		"future":     {`"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + info + `}}`, -32022},
	} {
		w.send(`{"jsonrpc":"2.0","id":1,` + tt.rest + `}`)
		m := w.next()
		if m.Error == nil {
			t.Errorf("%s: %s", name, m.Result)
			continue
		}
		said := m.Error.Message + string(m.Error.Data)
		if m.Error.Code != tt.code || m.Error.Message == "" || len(said) > 2000 {
			t.Errorf("%s: %d %.300s", name, m.Error.Code, said)
		}
		if strings.ContainsAny(said, "\x1b\x00\u202e") || strings.Contains(said, `\u001b`) || strings.Contains(said, `\u0000`) {
			t.Errorf("%s is shown as it is: %q", name, said)
		}
		if strings.HasPrefix(name, "re") && name == "revision" && !strings.Contains(string(m.Error.Data), "2025-11-25") {
			t.Errorf("it is not said which revisions there are: %s", m.Error.Data)
		}
	}
	w.send(callLine("2", "exekute", "{}", ""))
	if m := w.next(); m.Error == nil || !strings.Contains(m.Error.Message, "did you mean execute?") {
		t.Errorf("%+v", m)
	}
}

// Over HTTP, too, a revision that there is not is answered with those that there
// are, whether header or message names it.
func TestUnknown_Revisions(t *testing.T) {
	t.Parallel()
	srv, _ := serveHTTP(t, &fake{t: t}, nil)
	for _, version := range []string{"1999-01-01", "2099-01-01"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version +
			`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		res := post(t, srv.URL, body, "Mcp-Protocol-Version", version, "Mcp-Method", "tools/list")
		if res.code != http.StatusBadRequest || !strings.Contains(res.body, "-32022") || !strings.Contains(res.body, "2026-07-28") {
			t.Errorf("%s: %d %s", version, res.code, res.body)
		}
	}
}

// A notification that names neither a session nor a revision is accepted and
// changes nothing: a client that cancels like that must not take the refusal for
// the end of its connection. One that names a revision belongs to a session.
func TestHTTP_LoneNotification(t *testing.T) {
	t.Parallel()
	f, begun, ended, let := blocking(t)
	srv, _ := serveHTTP(t, f, nil)
	id := post(t, srv.URL, initialize).header.Get("Mcp-Session-Id")
	called := make(chan answer, 1)
	go func() {
		called <- request(t, http.MethodPost, srv.URL, callLine("7", "execute", `{"code":"1"}`, ""), "Content-Type", "application/json", "Mcp-Session-Id", id)
	}()
	<-begun
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	for _, tt := range []struct {
		body    string
		want    int
		headers []string
	}{
		{cancel, http.StatusAccepted, nil},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, http.StatusAccepted, nil},
		{cancel, http.StatusBadRequest, []string{"Mcp-Protocol-Version", "2025-11-25"}},
		{cancel, http.StatusNotFound, []string{"Mcp-Session-Id", "made-up"}},
		{ping, http.StatusBadRequest, nil},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, http.StatusBadRequest, nil},
	} {
		if res := post(t, srv.URL, tt.body, tt.headers...); res.code != tt.want {
			t.Errorf("%s %q: %d %s, want %d", tt.body, tt.headers, res.code, res.body, tt.want)
		}
	}
	close(let)
	if err := <-ended; err != nil {
		t.Errorf("somebody else's call was cancelled: %v", err)
	}
	if res := <-called; res.code != http.StatusOK {
		t.Errorf("%+v", res)
	}
}

// A client that takes no more is gone: calls have their time, and serving ends
// without an error while nothing ends what comes in.
func TestStdio_BrokenOutput(t *testing.T) {
	t.Parallel()
	f, begun, ended, let := blocking(t)
	e := newEdge(t, f, func(o *mcp.Options) { o.Grace = 10 * time.Minute })
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- e.ServeStdio(t.Context(), inR, outW) }()
	send := func(line string) {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	send(callLine("1", "execute", `{"code":"1"}`, ""))
	<-begun
	_ = outR.Close()
	send(ping)
	select {
	case err := <-ended:
		t.Errorf("the call was ended: %v", err)
	case err := <-done:
		t.Errorf("it has not waited for the call: %v", err)
	default:
	}
	close(let)
	if err := <-ended; err != nil {
		t.Errorf("the call was ended: %v", err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it goes on serving")
	}
	_ = inW.Close()
}

// auditing is a fake that keeps refusals.
type auditing struct {
	mcp.Backend
	mu      sync.Mutex
	refused []string
	err     error
}

func (a *auditing) Refused(_ context.Context, run core.ID, by core.Actor, reason string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if by.Host() != "t" {
		a.refused = append(a.refused, "by "+by.Name())
	}
	a.refused = append(a.refused, string(run)+" "+reason)
	return a.err
}

// What is refused of a requestState is on record, with the run where it is
// certain, and refused whether or not that succeeds.
func TestState_RefusedIsAudited(t *testing.T) {
	t.Parallel()
	const args, form = `{"code":"1"}`, elicits
	a := &auditing{Backend: newAsker(t, oneApproval()), err: errors.New("disk full")}
	now := newClock()
	w := stateEdge(t, a, now)
	w.send(modernCall("1", "execute", args, form, ""))
	in := w.next().asks(t)
	now.add(time.Second)
	for i, line := range []string{
		modernCall("2", "execute", `{"code":"2"}`, form, in.retry(approves)),                         // another call
		modernCall("3", "execute", args, form, `"requestState":"bm8.bm8",`),                          // made up
		modernCall("4", "execute", args, form, `"inputResponses":{"question":{"action":"accept"}},`), // no state
	} {
		w.send(line)
		if m := w.next(); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%d: %+v", i, m)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.refused) != 3 || !strings.HasPrefix(a.refused[0], string(runID)+" ") || !strings.Contains(a.refused[0], "another call") ||
		!strings.HasPrefix(a.refused[1], " ") || !strings.HasPrefix(a.refused[2], " ") {
		t.Errorf("%q", a.refused)
	}
}

var _ api.Refusals = (*auditing)(nil)

// begins is a fake whose runs tell what becomes of them by events.
func begins(t *testing.T, event core.EventType) (f *fake, begun chan struct{}, let chan struct{}) {
	t.Helper()
	f, begun, _, let = blocking(t)
	execute := f.execute
	f.execute = func(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
		req.Started(runID)
		return execute(ctx, req)
	}
	f.events = func(ctx context.Context, each func(core.Event) error) error {
		for _, typ := range []core.EventType{core.EventWorkflowStart, event} {
			if err := each(core.Event{Type: typ, RunID: runID}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return f, begun, let
}
