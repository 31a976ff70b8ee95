//go:build unix

package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
	"github.com/casys-ai/pml/core/skiptest"
)

// httpClient is a client of the machine's own server.
func httpClient(m *pmltest.Machine) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		rec, _ := daemon.ReadRecord(m.Home)
		return (&net.Dialer{}).DialContext(ctx, "unix", rec.Socket)
	}}}
}

// TestServer_ByHand: a server answers on its socket, says what it is, and
// stops when it is asked to, with nothing left but its database.
func TestServer_ByHand(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	if s := m.Status(5); s.Running {
		t.Errorf("a server before there is one: %+v", s)
	}
	p := m.Serving()
	s := m.Status(0)
	if !s.Running || s.Server.PID != p.Cmd.Process.Pid || s.Server.Background || s.Server.Protocol != api.Protocol || s.Server.Store != "bbolt" {
		t.Errorf("status %+v", s)
	}
	if info, err := os.Stat(s.Server.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
	resp, err := httpClient(m).Get("http://pml/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("healthz: %v %v", resp, err)
	}
	resp.Body.Close()
	pmltest.Wants(t, m.OK("server", "stop").Stdout, "stopped")
	if out := p.Wait(); out.Exit != 0 {
		t.Errorf("the server ended with %d\n%s", out.Exit, out.Stderr)
	}
	for _, name := range []string{"pml.sock", "server.json"} {
		if _, err := os.Lstat(filepath.Join(m.Home, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	m.Status(5)
	pmltest.Wants(t, m.OK("server", "stop").Stdout, "no server runs")
}

// TestServer_Signal: SIGTERM, Ctrl-C and a terminal that goes away stop a server as server stop does.
func TestServer_Signal(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := m.Serving()
		p.Signal(sig)
		if out := p.Wait(); out.Exit != 0 {
			t.Errorf("%s: exit %d\n%s", sig, out.Exit, out.Stderr)
		}
	}
}

// TestServer_LongSocket: a socket that nobody could find is refused.
func TestServer_LongSocket(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	path := "/tmp/" + strings.Repeat("x", 96)
	if f := m.Exit(13, "serve", "--json", "--listen", path).Fault(); f.Code != core.CodeInvalidConfig || !strings.Contains(f.Message, path) {
		t.Errorf("%+v", f)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is there")
	}
}

// TestServer_Mute: what has the socket and is no server is named.
func TestServer_Mute(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "waits for the end of a time limit")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	path, err := daemon.SocketPath(m.Home, func(name string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, args := range [][]string{{"server", "status", "--json"}, {"execute", "--detach", "--json", "--code", "return 1"}} {
		if f := m.Exit(5, args...).Fault(); f.Code != core.CodeServerUnreachable || !strings.Contains(f.Message, path) {
			t.Errorf("%q: %+v", args, f)
		}
	}
}

// TestServer_Second: one home has one server, and the second one names the first.
func TestServer_Second(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Serving()
	out := m.Exit(1, "serve", "--json")
	if f := out.Fault(); f.Code != core.CodeStoreBusy || len(f.Next) == 0 {
		t.Errorf("a second server: %+v", f)
	}
	if s := m.Status(0); !s.Running {
		t.Error("the first one is gone")
	}
}

// TestServer_Leftovers: what a killed server leaves keeps no other from starting.
//
// Scenario 27.
func TestServer_Leftovers(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	p := m.Serving()
	p.Kill()
	rec, ok := daemon.ReadRecord(m.Home)
	if _, err := os.Lstat(rec.Socket); err != nil || !ok {
		t.Fatalf("nothing was left: %v", err)
	}
	m.Status(5)
	m.Serving()
	if s := m.Status(0); s.Server.PID == rec.PID {
		t.Errorf("status %+v", s)
	}
}

// TestServer_CannotStart: whatever keeps a server from starting is said, with
// what to do, and nothing is damaged.
//
// Scenario 27.
func TestServer_CannotStart(t *testing.T) {
	t.Parallel()
	t.Run("SocketIsAFile", func(t *testing.T) {
		t.Parallel()
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		path := filepath.Join(m.Dir, "s.sock")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := m.Exit(13, "serve", "--listen", path, "--json").Fault(); !strings.Contains(f.Message, "no socket") {
			t.Errorf("%+v", f)
		}
		if pmltest.ReadFile(t, path) != "mine" {
			t.Error("the file was replaced")
		}
	})
	t.Run("PortInUse", func(t *testing.T) {
		t.Parallel()
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if f := m.Exit(13, "serve", "--listen", ln.Addr().String(), "--json").Fault(); !strings.Contains(f.Message, "cannot listen") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("Damaged", func(t *testing.T) {
		t.Parallel()
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		p := m.Serving()
		p.Kill()
		db := filepath.Join(m.Home, "server.db")
		if err := os.Truncate(db, 100); err != nil {
			t.Fatal(err)
		}
		if f := m.Exit(1, "serve", "--json").Fault(); f.Code != core.CodeStoreFailed {
			t.Errorf("%+v", f)
		}
		if info, err := os.Stat(db); err != nil || info.Size() != 100 {
			t.Errorf("the file was touched: %v %v", info, err)
		}
	})
}

// TestServer_TCP: over TCP there is no way in without a key, and the socket
// needs none.
func TestServer_TCP(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	token := strings.TrimSpace(m.OK("server", "key", "add", "ci").Stdout)
	m.Serving("--listen", "127.0.0.1:0")
	url := m.Status(0).Server.URL
	get := func(path, key string) int {
		req, err := http.NewRequest(http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if a, b, c := get("/api/v1/workflows", ""), get("/api/v1/workflows", "pml_wrong"), get("/api/v1/workflows", token); a != 401 || b != 401 || c != 200 {
		t.Errorf("no key %d, a wrong one %d, the right one %d", a, b, c)
	}
	m.OK("server", "key", "rm", "ci")
	if got := get("/api/v1/workflows", token); got != 401 {
		t.Errorf("a key that was removed: %d", got)
	}
	var keys api.Page[json.RawMessage]
	if m.OK("server", "key", "ls", "--json").Decode(&keys); len(keys.Items) != 0 {
		t.Errorf("keys %s", keys.Items)
	}
}

// TestServer_StopsInTime: a server that runs something stops within its grace,
// says what it leaves, and the next one goes on with it.
func TestServer_StopsInTime(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	m.Setenv("PML_NO_AUTOSTART", "1") // who waits must not start the next one
	p := m.Serving()
	id := strings.TrimSpace(m.OK("execute", "--code",
		`await mcp.rec.inc({key: "a"}); await mcp.rec.wait({file: "`+gate+`"}); return (await mcp.rec.inc({key: "b"})).count`, "--detach").Stdout)
	pmltest.WaitFor(t, "the second call runs", func() bool { return m.Count("wait") == 1 })
	waiter := m.Start("execute", "--code", `await mcp.rec.wait({file: "`+gate+`"}); return "waited"`, "--detach", "--wait", "150s")
	pmltest.WaitFor(t, "the waiter's call runs", func() bool { return m.Count("wait") == 2 })
	began := time.Now()
	pmltest.Wants(t, m.OK("server", "stop").Stdout, "stopped", "2 running")
	if took := time.Since(began); took > pmltest.Patience {
		t.Errorf("stopping took %s", took)
	}
	if out := p.Wait(); out.Exit != 0 {
		t.Errorf("exit %d: %s", out.Exit, out.Stderr)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.Serving()
	if out := waiter.Wait(); out.Exit != 0 || out.Stdout != "waited\n" {
		t.Errorf("who waited for a run through the restart: exit %d, %q\n%s", out.Exit, out.Stdout, out.Stderr)
	}
	m.OK("workflows", "watch", id)
	if out := m.OK("workflows", "result", id); out.Stdout != "1\n" || m.Count("inc") != 2 {
		t.Errorf("result %q, inc ran %d times", out.Stdout, m.Count("inc"))
	}
}

// TestServer_Idle: a server that nobody needs leaves by itself, and a run that
// only waits for a person does not keep it.
func TestServer_Idle(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	p := m.Serving("--idle", "500ms")
	m.Exit(8, "execute", "--code", `await mcp.rec.danger({x: "a"})`, "--detach", "--wait", "150s")
	if out := p.Wait(); out.Exit != 0 {
		t.Errorf("exit %d: %s", out.Exit, out.Stderr)
	}
	pmltest.Wants(t, p.Wait().Stderr, "nobody needs the server")
	if list := m.Approvals(); len(list) != 1 || list[0].Side != core.SideServer {
		t.Errorf("approvals %+v", list)
	}
}

// TestServer_Metrics: what a server did can be read by Prometheus.
func TestServer_Metrics(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Serving()
	m.Execute(0, `await mcp.rec.echo({value: 1})`, "--detach", "--wait", "150s")
	waiting := m.Execute(8, `await mcp.rec.danger({x: "a"})`, "--detach", "--wait", "150s")
	m.JSON(0, "continue", string(waiting.WorkflowID), "--approve")
	pmltest.WaitFor(t, "all is counted", func() bool {
		resp, err := httpClient(m).Get("http://pml/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			`pml_runs_ended_total{kind="code",state="complete"} 2`, `pml_calls_total{outcome="success",server="rec"} 2`,
			`pml_approval_decision_seconds_count{decision="approved",type="tool_permission"} 1`, `pml_store_operation_seconds_count{operation="commit",outcome="ok"}`,
		} {
			if !strings.Contains(string(raw), line) {
				return false
			}
		}
		return true
	})
}
