//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// exposes makes a machine that offers tools of the recorder.
func exposes(t *testing.T, globs ...string) *pmltest.Machine {
	t.Helper()
	return exposesAs(t, globs)
}

// exposesAs is exposes with any value of expose.
func exposesAs(t *testing.T, expose any) *pmltest.Machine {
	t.Helper()
	m := pmltest.BareMachine(t)
	raw, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"rec": m.Rec(nil)}, "expose": expose,
		"permissions": map[string]any{"allow": []string{"rec"}, "ask": []string{"rec:danger"}, "deny": []string{"rec:big"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", string(raw))
	m.OK("trust", "--yes")
	return m
}

// names are the tools that a host is offered.
func (h *host) names() []string {
	h.m.T.Helper()
	return toolsOf(h.m.T, h.answer(h.send("tools/list", map[string]any{})))
}

func toolsOf(t testing.TB, result json.RawMessage) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, tool := range list.Tools {
		out = append(out, tool.Name)
	}
	return out
}

// text calls a tool and returns the text of its result.
func (h *host) text(name string, args map[string]any) (text string, failed bool) {
	h.m.T.Helper()
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(h.answer(h.tool(name, args)), &r); err != nil || len(r.Content) == 0 {
		h.m.T.Fatalf("%+v, %v", r, err)
	}
	return r.Content[0].Text, r.IsError
}

// TestGateway: an agent calls tools of a server under their own names, after
// pml's; each call passes the gates and is kept.
func TestGateway(t *testing.T) {
	t.Parallel()
	bare := startHost(pmltest.NewMachine(t, pmltest.AllowRec()))
	if got := bare.names(); !slices.Equal(got, api.OwnTools) {
		t.Errorf("nothing is exposed, and there is %v", got)
	}
	bare.close()
	m := exposes(t, "rec:{inc,echo,danger,big}")
	h := startHost(m)
	var names []string
	pmltest.WaitFor(t, "the tools of the server", func() bool { names = h.names(); return len(names) > len(api.OwnTools) }) // one list waits 5 s
	if !slices.Equal(names, append(slices.Clone(api.OwnTools), "danger", "echo", "inc")) {
		t.Errorf("%v", names)
	}
	for range 3 {
		if text, failed := h.text("echo", map[string]any{"value": "hello"}); failed || !strings.Contains(text, "hello") {
			t.Errorf("%s", text)
		}
	}
	if text, failed := h.text("inc", map[string]any{"key": "a"}); failed || !strings.Contains(text, "1") {
		t.Errorf("%s", text)
	}
	text, failed := h.text("danger", map[string]any{"x": "y"})
	var asked api.Result
	if err := json.Unmarshal([]byte(text), &asked); err != nil || !failed || asked.Status != api.StatusApprovalRequired || m.Count("danger") != 0 {
		t.Fatalf("%s, %v", text, err)
	}
	h.close()
	got := m.JSON(0, "continue", string(asked.WorkflowID), "--approve", "--json")
	if raw, ok := api.OfferedRaw(got.Result); !ok || !strings.Contains(string(raw), `"content"`) || m.Count("danger") != 1 || m.Count("inc") != 1 {
		t.Errorf("%+v", got)
	}
	if out := m.OK("workflows", "ls").Stdout; strings.Contains(out, "reads") || !strings.Contains(out, "\ninc a ") || !strings.Contains(out, "\ndanger y ") {
		t.Errorf("%s", out)
	}
	if out := m.OK("workflows", "ls", "--state", "complete").Stdout; !strings.Contains(out, "only read") {
		t.Errorf("%s", out)
	}
}

// TestGateway_Search: with mode "search" a host has two tools for all that is exposed. What
// they call passes the same gates, and its run has the tool's name.
func TestGateway_Search(t *testing.T) {
	t.Parallel()
	m := exposesAs(t, map[string]any{"mode": "search", "tools": []string{"rec"}})
	h := startHost(m)
	if got := h.names(); !slices.Equal(got, append(slices.Clone(api.OwnTools), api.SearchTools, api.CallTool)) {
		t.Errorf("%v", got)
	}
	text, failed := h.text(api.SearchTools, map[string]any{"query": "rec"})
	if failed || !strings.Contains(text, `"rec:inc"`) || strings.Contains(text, "rec:big") {
		t.Errorf("%s", text)
	}
	if text, failed = h.text(api.SearchTools, map[string]any{"query": "rec:inc"}); failed || !strings.Contains(text, `"inputSchema"`) {
		t.Errorf("%s", text)
	}
	if text, failed = h.text(api.CallTool, map[string]any{"name": "rec:inc", "arguments": map[string]any{"key": "a"}}); failed || m.Count("inc") != 1 {
		t.Errorf("%s", text)
	}
	text, failed = h.text(api.CallTool, map[string]any{"name": "rec:danger", "arguments": map[string]any{"x": "y"}})
	var asked api.Result
	if err := json.Unmarshal([]byte(text), &asked); err != nil || !failed || asked.Status != api.StatusApprovalRequired || m.Count("danger") != 0 {
		t.Fatalf("%s, %v", text, err)
	}
	if text, failed = h.text(api.CallTool, map[string]any{"arguments": map[string]any{}}); !failed || !strings.Contains(text, "server:tool") {
		t.Errorf("%s", text)
	}
	h.close()
	if got := m.JSON(0, "continue", string(asked.WorkflowID), "--approve", "--json"); m.Count("danger") != 1 {
		t.Errorf("%+v", got)
	}
	if out := m.OK("workflows", "ls").Stdout; !strings.Contains(out, "\ninc a ") || !strings.Contains(out, "\ndanger y ") || strings.Contains(out, api.CallTool) {
		t.Errorf("%s", out)
	}
}

// TestGateway_Killed: pml is killed in the middle of a call with effects. Whoever
// goes on is asked; the call runs again only because a person says so.
func TestGateway_Killed(t *testing.T) {
	t.Parallel()
	m := exposes(t, "rec")
	h := startHost(m)
	file := m.WS + "/go"
	h.tool("hold", map[string]any{"file": file})
	pmltest.WaitFor(t, "the call to run", func() bool { return m.Count("hold") > 0 })
	if err := h.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.close()
	run := m.Latest()
	if run.State != core.RunInterrupted {
		t.Fatalf("%+v", run)
	}
	if r := m.JSON(8, "continue", string(run.ID), "--json"); r.ApprovalType != core.ApproveInDoubt || m.Count("hold") != 1 {
		t.Errorf("%+v, %d calls", r, m.Count("hold"))
	}
}

// TestGateway_HTTP: the server offers the same at /mcp, by the workspace of who
// asks.
func TestGateway_HTTP(t *testing.T) {
	t.Parallel()
	m := exposes(t, "rec:inc")
	p := m.Start("serve")
	m.Listening(p)
	c := m.Caller("")
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	ask := func(id int, method string, params any, head map[string]string) pmltest.Answer {
		t.Helper()
		a, err := c.Send(ctx, http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}, head)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	hello := ask(1, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	}, nil)
	session := map[string]string{"Mcp-Session-Id": hello.Head.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-06-18"}
	var list struct{ Result json.RawMessage }
	a := ask(2, "tools/list", map[string]any{}, session)
	for !strings.Contains(string(a.Body), `"inc"`) && ctx.Err() == nil { // one list waits 5 s for a server
		a = ask(2, "tools/list", map[string]any{}, session)
	}
	if err := json.Unmarshal(a.Body, &list); err != nil || !slices.Contains(toolsOf(t, list.Result), "inc") || slices.Contains(toolsOf(t, list.Result), "echo") {
		t.Errorf("%s, %v", a.Body, err)
	}
	if a := ask(3, "tools/call", map[string]any{"name": "inc", "arguments": map[string]any{"key": "k"}}, session); m.Count("inc") != 1 || strings.Contains(string(a.Body), `"isError":true`) {
		t.Errorf("%s", a.Body)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
}
