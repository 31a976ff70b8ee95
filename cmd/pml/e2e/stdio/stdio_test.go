//go:build unix

package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// host is an agent's host with a pml on its stdio.
type host struct {
	m     *pmltest.Machine
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	err   pmltest.Buffer
	calls int
	asked func(id, params json.RawMessage) // answers a request of pml; nil: there must be none
}

// startHost starts pml stdio and shakes hands.
func startHost(m *pmltest.Machine) *host { return hostOf(m, map[string]any{}) }

// hostOf is a host with capabilities.
func hostOf(m *pmltest.Machine, capabilities map[string]any) *host {
	return hostNamed(m, "host", capabilities)
}

// hostNamed is a host that gives itself a name.
func hostNamed(m *pmltest.Machine, name string, capabilities map[string]any) *host {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	m.T.Cleanup(cancel)
	h := &host{m: m, cmd: m.Command(ctx, "stdio")}
	h.cmd.Stderr = &h.err
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		m.T.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		m.T.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	h.out = bufio.NewScanner(out)
	h.out.Buffer(nil, 16<<20)
	h.send("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": map[string]any{"name": name, "version": "1"}})
	h.answer(h.calls)
	h.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return h
}

func (h *host) write(v any) {
	h.m.T.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = h.in.Write(append(raw, '\n'))
	}
	if err != nil {
		h.m.T.Fatalf("%v: %s", err, h.err.String())
	}
}

// send sends a request and returns its number.
func (h *host) send(method string, params any) int {
	h.m.T.Helper()
	h.calls++
	h.write(map[string]any{"jsonrpc": "2.0", "id": h.calls, "method": method, "params": params})
	return h.calls
}

// answer reads until the answer to a request. Everything on stdout is JSON-RPC.
func (h *host) answer(id int) json.RawMessage {
	h.m.T.Helper()
	for h.out.Scan() {
		var v struct {
			JSONRPC string `json:"jsonrpc"`
			ID      json.RawMessage
			Method  string
			Params  json.RawMessage
			Result  json.RawMessage
			Error   json.RawMessage
		}
		if err := json.Unmarshal(h.out.Bytes(), &v); err != nil || v.JSONRPC != "2.0" {
			h.m.T.Fatalf("not JSON-RPC on stdout: %q", h.out.Text())
		}
		if v.Method != "" && len(v.ID) > 0 {
			if h.asked == nil {
				h.m.T.Fatalf("pml asks: %s", h.out.Text())
			}
			h.asked(v.ID, v.Params)
			continue
		}
		if string(v.ID) == strconv.Itoa(id) {
			if len(v.Error) > 0 {
				h.m.T.Fatalf("%s", v.Error)
			}
			return v.Result
		}
	}
	h.m.T.Fatalf("no answer to %d: %v %s", id, h.out.Err(), h.err.String())
	return nil
}

// tool calls a tool and returns the number of the request.
func (h *host) tool(name string, args map[string]any) int {
	h.m.T.Helper()
	return h.send("tools/call", map[string]any{"name": name, "arguments": args})
}

// result waits for the result of a tool.
func (h *host) result(id int) (r api.Result) {
	h.m.T.Helper()
	var v struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(h.answer(id), &v); err != nil {
		h.m.T.Fatal(err)
	}
	if err := json.Unmarshal(v.StructuredContent, &r); err != nil {
		h.m.T.Fatal(err)
	}
	return r
}

// close ends stdin and returns the exit code.
func (h *host) close() int {
	_ = h.in.Close()
	for h.out.Scan() {
	}
	_ = h.cmd.Wait()
	return h.cmd.ProcessState.ExitCode()
}

// TestStdio: an agent's call stops for a person, who decides in a terminal while
// the call is open; the call returns the result, and nothing ran twice.
func TestStdio(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := startHost(m)
	first := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce}))
	if first.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v", first)
	}
	m.JSON(0, "continue", string(first.WorkflowID), "--approve")

	open := h.tool("execute", map[string]any{"code": pmltest.AsksOnce, "options": map[string]any{"wait": pmltest.Patience.Milliseconds()}})
	var waiting core.Approval
	pmltest.WaitFor(t, "the question", func() bool {
		for _, a := range m.Approvals() {
			waiting = a
		}
		return waiting.ID != ""
	})
	m.OK("continue", string(waiting.RunID), "--approve", "--checkpoint", string(waiting.ID))
	if r := h.result(open); r.Status != api.StatusSuccess || r.WorkflowID != waiting.RunID {
		t.Errorf("%+v", r)
	}
	if m.Count("inc") != 2 || m.Count("danger") != 2 {
		t.Errorf("%d inc, %d danger", m.Count("inc"), m.Count("danger"))
	}
	if code := h.close(); code != 0 {
		t.Errorf("exit %d: %s", code, h.err.String())
	}
}

// TestStdio_Human: where only a person may decide, the agent's host cannot, nor
// through a server.
func TestStdio_Human(t *testing.T) {
	t.Parallel()
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"decider": "human"}
	m := pmltest.NewMachine(t, c)
	h := startHost(m)
	r := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce}))
	no := h.result(h.tool("approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true}))
	if no.Status != api.StatusAwaitingHuman || m.Count("danger") != 0 {
		t.Errorf("%+v", no)
	}
	if code := h.close(); code != 0 {
		t.Errorf("exit %d", code)
	}
	// Nor can the agent's shell: only where the card is shown and answered.
	if o := m.PML("continue", string(r.WorkflowID), "--approve"); o.Exit != 8 || m.Count("danger") != 0 {
		t.Errorf("exit %d: %s%s", o.Exit, o.Stdout, o.Stderr)
	}
	ap := m.Workflow(r.WorkflowID).Approvals[0]
	if s := m.ApproveOnTerminal(ap); s.Exit != 0 || m.Count("danger") != 1 {
		t.Errorf("exit %d: %q", s.Exit, s.Text)
	}
}

// TestStdio_EndOfHost: a host that goes leaves its run to whoever continues it.
func TestStdio_EndOfHost(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := startHost(m)
	h.tool("execute", map[string]any{"code": `const a = await mcp.rec.inc({key: "a"}); await mcp.rec.slow({ms: 600000, value: 1}); return a.count`})
	pmltest.WaitFor(t, "the call to run", func() bool { return m.Count("slow") > 0 })
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := h.close(); code != 143 && code != 0 {
		t.Errorf("exit %d: %s", code, h.err.String())
	}
	if w := m.Latest(); w.State != core.RunInterrupted {
		t.Errorf("the run is %s", w.State)
	}
	if !strings.Contains(m.OK("workflows", "ls").Stdout, "interrupted") {
		t.Error("not listed as interrupted")
	}
}

// startAnswering is a host that declares elicitation, and whose person approves
// everything after having read it.
func startAnswering(m *pmltest.Machine) *host {
	m.T.Helper()
	h := hostOf(m, map[string]any{"elicitation": map[string]any{}})
	h.asked = func(id, params json.RawMessage) {
		<-time.After(seen) // an answer that is faster is not a person's, by the clock of pml
		h.write(map[string]any{"jsonrpc": "2.0", "id": id, "result": approval(params)})
	}
	return h
}

var toType = regexp.MustCompile(`To approve, type ([0-9a-z]{4})\.`)

// approval is the answer of who has read a question and types what it wants.
func approval(question json.RawMessage) map[string]any {
	content := map[string]any{"approve": true}
	if found := toType.FindSubmatch(question); found != nil {
		content = map[string]any{"confirm": string(found[1])}
	}
	return map[string]any{"action": "accept", "content": content}
}

// seen is longer than what tells a person's answer from a program's.
const seen = 500 * time.Millisecond

// TestStdio_Elicitation: a host that can ask is asked within the call; the audit
// log says how it was decided.
func TestStdio_Elicitation(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := startAnswering(m)
	if r := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce})); r.Status != api.StatusSuccess {
		t.Fatalf("%+v", r)
	}
	if out := m.OK("audit", "ls").Stdout; !strings.Contains(out, " in host ") {
		t.Errorf("the audit log:\n%s", out)
	}
	if m.Count("inc") != 1 || m.Count("danger") != 1 {
		t.Errorf("%d inc, %d danger", m.Count("inc"), m.Count("danger"))
	}
	h.close()
}

// TestStdio_ElicitationHuman: where only a person decides, a host's dialog is
// none, unless the host is trusted.
func TestStdio_ElicitationHuman(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		c := pmltest.AllowRec()
		c.Approvals = map[string]any{"decider": "human", "trust_host": trusted}
		m := pmltest.NewMachine(t, c)
		h := startAnswering(m)
		r := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce}))
		if want := map[bool]api.Status{false: api.StatusApprovalRequired, true: api.StatusSuccess}[trusted]; r.Status != want {
			t.Errorf("trusted %v: %+v", trusted, r)
		}
		if ran := m.Count("danger") == 1; ran != trusted {
			t.Errorf("trusted %v: ran %v", trusted, ran)
		}
		h.close()
	}
}

// TestStdio_InputRequired: a client of the newest revision gets the question as
// the result of its call. pml is killed; another one takes the answer, and what
// ran before does not run again.
func TestStdio_InputRequired(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	call := func(h *host, more map[string]any) json.RawMessage {
		params := map[string]any{"name": "execute", "arguments": map[string]any{"code": pmltest.AsksOnce}, "_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "host", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
		}}
		maps.Copy(params, more)
		return h.answer(h.send("tools/call", params))
	}
	var asked struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
	}
	h := startHost(m)
	if raw := call(h, nil); json.Unmarshal(raw, &asked) != nil || asked.Type != "input_required" || len(asked.Requests) != 1 {
		t.Fatalf("%s", raw)
	}
	_ = h.cmd.Process.Kill()
	h.close()
	<-time.After(seen)
	answers := map[string]any{"requestState": asked.State, "inputResponses": map[string]any{}}
	for key, question := range asked.Requests {
		answers["inputResponses"] = map[string]any{key: approval(question)}
	}
	h = startHost(m)
	var v struct {
		StructuredContent api.Result `json:"structuredContent"`
	}
	if raw := call(h, answers); json.Unmarshal(raw, &v) != nil || v.StructuredContent.Status != api.StatusSuccess {
		t.Errorf("%s", raw)
	}
	if m.Count("inc") != 1 || m.Count("danger") != 1 {
		t.Errorf("%d inc, %d danger", m.Count("inc"), m.Count("danger"))
	}
	h.close()
}
