//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/client"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

const (
	oldRevision = "2025-11-25" // the last one with a handshake
	newRevision = "2026-07-28"
)

// peer is a client that pml is tried with.
type peer struct {
	name     string
	revision string // that both agree on
	dial     func(t testing.TB, to dialed) mcpClient
}

// peers are all clients that are tried; packages is the folder of those in node.
func peers(packages string) []peer {
	node := func(args ...string) func(testing.TB, dialed) mcpClient {
		return func(t testing.TB, to dialed) mcpClient { return script(t, packages, to, args...) }
	}
	return []peer{
		{name: "TypeScript SDK 1.32", revision: oldRevision, dial: node("sdk.mjs")},
		{name: "TypeScript client 2.4, auto", revision: newRevision, dial: node("client.mjs", "auto")},
		{name: "TypeScript client 2.4, legacy", revision: oldRevision, dial: node("client.mjs", "legacy")},
	}
}

// goPeers are the clients that need no node.
func goPeers() []peer {
	return []peer{
		{name: "go-sdk", revision: newRevision, dial: func(t testing.TB, to dialed) mcpClient { return dialSDK(t, to, "") }},
		{name: "go-sdk, legacy", revision: oldRevision, dial: func(t testing.TB, to dialed) mcpClient { return dialSDK(t, to, oldRevision) }},
		{name: "mcp-go", revision: newRevision, dial: func(t testing.TB, to dialed) mcpClient { return dialMCPGo(t, to) }},
		{name: "mcp-go, legacy", revision: oldRevision, dial: func(t testing.TB, to dialed) mcpClient {
			return dialMCPGo(t, to, mcpgo.WithProtocolVersion(oldRevision))
		}},
	}
}

// meeting is a client and a pml that it is connected to, over stdio or TCP.
type meeting struct {
	*pmltest.Machine
	peer   peer
	client mcpClient
	key    string // over TCP, as the rest
	url    string
	server *pmltest.Process
	// elicits is how the client answers questions; nil: it cannot be asked.
	elicits *elicits
}

// restart kills pml with -9, and connects the client to a new one.
func (m *meeting) restart() {
	m.T.Helper()
	if pid := m.client.pid(); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			m.T.Fatal(err)
		}
	} else {
		m.server.Kill()
	}
	m.client.close()
	m.begin()
}

// begin connects the client, to a new server if it is over TCP.
func (m *meeting) begin() {
	m.T.Helper()
	if m.key != "" {
		m.server = m.Serving("--listen", "127.0.0.1:0")
	}
	m.connect()
}

func (m *meeting) connect() {
	m.T.Helper()
	to := stdioTarget(m.Machine)
	if m.key != "" {
		m.url = m.Status(0).Server.URL
		to = dialed{URL: m.url + "/mcp", Headers: map[string]string{"Authorization": "Bearer " + m.key}}
	}
	to.Elicits = m.elicits
	m.client = m.peer.dial(m.T, to)
	if got := m.client.version(); got != m.peer.revision {
		m.T.Fatalf("agreed on %q, want %q", got, m.peer.revision)
	}
}

// call calls a tool and returns its result.
func (m *meeting) call(name string, args map[string]any) api.Result {
	m.T.Helper()
	r, err := m.try(name, args)
	if err != nil {
		m.T.Fatalf("%s: %v", name, err)
	}
	return r
}

func (m *meeting) try(name string, args map[string]any) (r api.Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	raw, err := m.client.call(ctx, name, args, nil)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

// readThenWrite counts, reads and then writes, which asks.
func readThenWrite(key string) string {
	return fmt.Sprintf(`
		const n = await mcp.rec.inc({key: %[1]q});
		const f = await mcp.workspace.read_file({path: "in.txt"});
		await mcp.workspace.write_file({path: %[1]q + ".txt", content: f.content + "!"});
		return n.count;`, key)
}

// written is what readThenWrite has written.
func (m *meeting) written(key string) string {
	raw, err := os.ReadFile(filepath.Join(m.WS, key+".txt"))
	if err != nil {
		return ""
	}
	return string(raw)
}

// counted is how often readThenWrite ran its first call.
func (m *meeting) counted(key string) (n int) {
	for _, c := range m.Calls() {
		if strings.HasPrefix(c, "inc ") && strings.Contains(c, `"`+key+`"`) {
			n++
		}
	}
	return n
}

// TestClients: clients by others go through everything that an agent does, in
// their revisions of the protocol, over stdio and over TCP.
func TestClients(t *testing.T) {
	t.Parallel()
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		meetAll(t, goPeers())
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		meetAll(t, peers(clientPackages(t)))
	})
}

func meetAll(t *testing.T, all []peer) {
	for _, p := range all {
		for _, over := range []string{"stdio", "TCP"} {
			t.Run(p.name+" over "+over, func(t *testing.T) {
				t.Parallel()
				if over == "TCP" {
					skiptest.Long(t, "does over TCP what it does over stdio")
				}
				c := pmltest.AllowRec().AgentsDecide()
				c.Permissions["allow"] = []string{"rec:*", "workspace:*"}
				c.Permissions["ask"] = []string{"workspace:write_file"}
				m := &meeting{Machine: pmltest.NewMachine(t, c), peer: p}
				m.Write("in.txt", "hello")
				if over == "TCP" {
					m.key = strings.TrimSpace(m.OK("server", "key", "add", "agent").Stdout)
				}
				m.begin()
				m.tools()
				m.decides()
				m.followsProgress()
				m.cancels()
				m.outlives()
			})
		}
	}
}

// tools: the client lists pml's tools.
func (m *meeting) tools() {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	names, err := m.client.tools(ctx)
	if err != nil {
		m.T.Fatal(err)
	}
	for _, want := range []string{"execute", "continue", "abort", "replan", "approval_response", "workflow_status", "flow_status", "discover"} {
		if !slices.Contains(names, want) {
			m.T.Errorf("no tool %s: %q", want, names)
		}
	}
}

// decides: a call that asks, and both ways to say yes, and no.
func (m *meeting) decides() {
	m.T.Helper()
	for key, decide := range map[string]func(api.Result) api.Result{
		"a": func(r api.Result) api.Result {
			return m.call("execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "approved": true}})
		},
		"b": func(r api.Result) api.Result {
			return m.call("approval_response", map[string]any{"workflow_id": r.WorkflowID, "checkpoint_id": r.CheckpointID, "approved": true})
		},
	} {
		r := m.call("execute", map[string]any{"code": readThenWrite(key)})
		if r.Status != api.StatusApprovalRequired || r.ApprovalType != core.ApproveTool || r.CheckpointID == "" || m.written(key) != "" {
			m.T.Fatalf("%+v", r)
		}
		done := decide(r)
		if done.Status != api.StatusComplete || string(done.Result) != "1" || done.WorkflowID != r.WorkflowID || m.written(key) != "hello!" || m.counted(key) != 1 {
			m.T.Errorf("%+v; written %q, %d calls", done, m.written(key), m.counted(key))
		}
	}
	r := m.call("execute", map[string]any{"code": readThenWrite("c")})
	no := m.call("execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "approved": false}})
	if no.Status != api.StatusAborted || m.written("c") != "" {
		m.T.Errorf("%+v; written %q", no, m.written("c"))
	}
	wrong := m.call("execute", map[string]any{"code": `return await mcp.rec.fail({message: "broken"})`})
	if wrong.Status != api.StatusError || wrong.ErrorCode != core.CodeToolFailed || !strings.Contains(wrong.Error, "broken") {
		m.T.Errorf("%+v", wrong)
	}
	if _, err := m.try("execute", map[string]any{"code": 7}); err == nil || !strings.Contains(err.Error(), "/code") {
		m.T.Errorf("code that is no text: %v", err)
	}
}

// followsProgress: every notification lets the next call of the run end, so
// that the run ends only if all of them come while it runs.
func (m *meeting) followsProgress() {
	m.T.Helper()
	const steps = 5
	file := filepath.Join(m.Dir, "step-")
	var mu sync.Mutex
	var seen []float64
	told := func(at float64) {
		mu.Lock()
		defer mu.Unlock()
		if err := os.WriteFile(fmt.Sprint(file, len(seen)), nil, 0o600); err != nil {
			m.T.Error(err)
		}
		seen = append(seen, at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	defer cancel()
	code := fmt.Sprintf(`for (let i = 0; i < %d; i++) await mcp.rec.wait({file: %q + i}); return "through"`, steps, file)
	raw, err := m.client.call(ctx, "execute", map[string]any{"code": code}, told)
	var r api.Result
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil || string(r.Result) != `"through"` {
		m.T.Fatalf("%v %+v", err, r)
	}
	m.tools() // what comes late is there by now
	mu.Lock()
	defer mu.Unlock()
	for i := range seen[1:] {
		if seen[i+1] <= seen[i] {
			m.T.Errorf("progress does not grow: %v", seen)
		}
	}
	if len(seen) < steps {
		m.T.Errorf("told %v", seen)
	}
	if late := m.client.late(); late != 0 {
		m.T.Errorf("%d notifications after the answer", late)
	}
}

// cancels: a call that is not wanted any more ends; others are answered while
// it is open, and its run goes on.
func (m *meeting) cancels() {
	m.T.Helper()
	file := filepath.Join(m.Dir, "cancelled")
	before := m.Count("wait")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := m.client.call(ctx, "execute", map[string]any{"code": fmt.Sprintf(`await mcp.rec.wait({file: %q}); return "went on"`, file)}, nil)
		ended <- err
	}()
	pmltest.WaitFor(m.T, "the call runs", func() bool { return m.Count("wait") > before })
	m.tools()
	cancel()
	if err := <-ended; err == nil {
		m.T.Error("a cancelled call has a result")
	}
	var list api.Page[core.Workflow]
	raw, err := m.client.call(context.Background(), "workflow_status", map[string]any{"status": []string{"running"}}, nil)
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil || len(list.Items) != 1 {
		m.T.Fatalf("running after the cancel: %v %s", err, raw)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		m.T.Fatal(err)
	}
	pmltest.WaitFor(m.T, "the run goes on to its end", func() bool {
		raw, err := m.client.call(context.Background(), "workflow_status", map[string]any{"workflow_id": list.Items[0].ID}, nil)
		var w core.Workflow
		if err == nil {
			err = json.Unmarshal(raw, &w)
		}
		if err != nil {
			m.T.Fatal(err)
		}
		return w.State == core.RunComplete && string(w.Result) == `"went on"`
	})
}

// outlives: a run that waits outlives pml; its calls are not made again.
func (m *meeting) outlives() {
	m.T.Helper()
	r := m.call("execute", map[string]any{"code": readThenWrite("d")})
	if r.Status != api.StatusApprovalRequired {
		m.T.Fatalf("%+v", r)
	}
	m.restart()
	done := m.call("execute", map[string]any{"continue_workflow": map[string]any{"workflow_id": r.WorkflowID, "approved": true}})
	if done.Status != api.StatusComplete || string(done.Result) != "1" || m.counted("d") != 1 || m.written("d") != "hello!" {
		m.T.Errorf("%+v; %d calls, written %q", done, m.counted("d"), m.written("d"))
	}
}

// TestClients_Inspector: the command line of the inspector, a process for each
// call, with the TypeScript SDK that it brings.
func TestClients_Inspector(t *testing.T) {
	t.Parallel()
	packages := clientPackages(t)
	c := pmltest.AllowRec().AgentsDecide()
	c.Permissions["allow"] = []string{"rec:*", "workspace:*"}
	c.Permissions["ask"] = []string{"workspace:write_file"}
	m := &meeting{Machine: pmltest.NewMachine(t, c)}
	m.Write("in.txt", "hello")
	to := stdioTarget(m.Machine)
	inspect := func(into any, args ...string) {
		t.Helper()
		line := append([]string{filepath.Join(packages, "node_modules", ".bin", "mcp-inspector"), "--cli", to.Command, to.Args[0]}, args...)
		ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
		defer cancel()
		cmd := to.command(ctx)
		cmd.Path, cmd.Args = skiptest.Tool(t, "node"), append([]string{"node"}, line...)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Logf("%s", failed.Stderr)
			}
			t.Fatalf("inspector %v: %v\n%s", args, err, out)
		}
	}
	call := func(name string, args ...string) (r api.Result) {
		t.Helper()
		var raw json.RawMessage
		line := []string{"--method", "tools/call", "--tool-name", name}
		for _, a := range args {
			line = append(line, "--tool-arg", a)
		}
		inspect(&raw, line...)
		structure, err := structureOf(raw)
		if err == nil {
			err = json.Unmarshal(structure, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var list struct{ Tools []struct{ Name string } }
	inspect(&list, "--method", "tools/list")
	if len(list.Tools) < 7 {
		t.Errorf("%+v", list)
	}
	r := call("execute", "code="+readThenWrite("a"))
	if r.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v", r)
	}
	done := call("execute", fmt.Sprintf(`continue_workflow={"workflow_id":%q,"approved":true}`, r.WorkflowID))
	if done.Status != api.StatusComplete || string(done.Result) != "1" || m.counted("a") != 1 || m.written("a") != "hello!" {
		t.Errorf("%+v", done)
	}
	r = call("execute", "code="+readThenWrite("b"))
	done = call("approval_response", "workflow_id="+string(r.WorkflowID), "checkpoint_id="+string(r.CheckpointID), "approved=true")
	if done.Status != api.StatusComplete || m.counted("b") != 1 {
		t.Errorf("%+v", done)
	}
}
