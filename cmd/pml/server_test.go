//go:build unix

package main

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

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/daemon"
)

// serving is a server that was started by hand and answers.
func (m *machine) serving(args ...string) *process {
	m.t.Helper()
	p := m.start(append([]string{"serve"}, args...)...)
	m.listening(p)
	return p
}

// listening waits until a server says that it listens.
func (m *machine) listening(p *process) {
	m.t.Helper()
	waitFor(m.t, "the server listens", func() bool {
		select {
		case <-p.ended():
			m.t.Fatalf("the server ended: %+v", p.wait())
		default:
		}
		return strings.Contains(p.err.String(), "listening on ")
	})
}

// stopAtEnd stops what a test has started in the background.
func (m *machine) stopAtEnd() {
	m.t.Helper()
	m.t.Cleanup(func() {
		rec, ok := daemon.ReadRecord(m.Home)
		m.pml("server", "stop")
		if ok && syscall.Kill(rec.PID, 0) == nil {
			_ = syscall.Kill(rec.PID, syscall.SIGKILL) // a server that does not stop fails its own test
		}
	})
}

// state is what server status --json says.
type state struct {
	Running bool
	Server  api.ServerStatus
}

func (m *machine) status(code int) state {
	m.t.Helper()
	var s state
	m.exit(code, "server", "status", "--json").decode(&s)
	return s
}

// http is a client of the machine's own server.
func (m *machine) http() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		rec, _ := daemon.ReadRecord(m.Home)
		return (&net.Dialer{}).DialContext(ctx, "unix", rec.Socket)
	}}}
}

// TestServer_ByHand: a server answers on its socket, says what it is, and
// stops when it is asked to, with nothing left but its database.
func TestServer_ByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	if s := m.status(5); s.Running {
		t.Errorf("a server before there is one: %+v", s)
	}
	p := m.serving()
	s := m.status(0)
	if !s.Running || s.Server.PID != p.cmd.Process.Pid || s.Server.Background || s.Server.Protocol != api.Protocol || s.Server.Store != "bbolt" {
		t.Errorf("status %+v", s)
	}
	if info, err := os.Stat(s.Server.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}
	resp, err := m.http().Get("http://pml/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("healthz: %v %v", resp, err)
	}
	resp.Body.Close()
	wants(t, m.ok("server", "stop").Stdout, "stopped")
	if out := p.wait(); out.Exit != 0 {
		t.Errorf("the server ended with %d\n%s", out.Exit, out.Stderr)
	}
	for _, name := range []string{"pml.sock", "server.json"} {
		if _, err := os.Lstat(filepath.Join(m.Home, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	m.status(5)
	wants(t, m.ok("server", "stop").Stdout, "no server runs")
}

// TestServer_Signal: SIGTERM, Ctrl-C and a terminal that goes away stop a server as server stop does.
func TestServer_Signal(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := m.serving()
		p.signal(sig)
		if out := p.wait(); out.Exit != 0 {
			t.Errorf("%s: exit %d\n%s", sig, out.Exit, out.Stderr)
		}
	}
}

// TestServer_LongSocket: a socket that nobody could find is refused.
func TestServer_LongSocket(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	path := "/tmp/" + strings.Repeat("x", 96)
	if f := m.exit(13, "serve", "--json", "--listen", path).fault(); f.Code != core.CodeInvalidConfig || !strings.Contains(f.Message, path) {
		t.Errorf("%+v", f)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is there")
	}
}

// TestServer_Mute: what has the socket and is no server is named.
func TestServer_Mute(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
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
		if f := m.exit(5, args...).fault(); f.Code != core.CodeServerUnreachable || !strings.Contains(f.Message, path) {
			t.Errorf("%q: %+v", args, f)
		}
	}
}

// TestServer_Second: one home has one server, and the second one names the first.
func TestServer_Second(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.serving()
	out := m.exit(1, "serve", "--json")
	if f := out.fault(); f.Code != core.CodeStoreBusy || len(f.Next) == 0 {
		t.Errorf("a second server: %+v", f)
	}
	if s := m.status(0); !s.Running {
		t.Error("the first one is gone")
	}
}

// TestServer_Leftovers: what a killed server leaves keeps no other from starting.
//
// Scenario 27.
func TestServer_Leftovers(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	p := m.serving()
	p.kill()
	rec, ok := daemon.ReadRecord(m.Home)
	if _, err := os.Lstat(rec.Socket); err != nil || !ok {
		t.Fatalf("nothing was left: %v", err)
	}
	m.status(5)
	m.serving()
	if s := m.status(0); s.Server.PID == rec.PID {
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
		m := newMachine(t, allowRec())
		path := filepath.Join(m.Dir, "s.sock")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := m.exit(13, "serve", "--listen", path, "--json").fault(); !strings.Contains(f.Message, "no socket") {
			t.Errorf("%+v", f)
		}
		if readFile(t, path) != "mine" {
			t.Error("the file was replaced")
		}
	})
	t.Run("PortInUse", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t, allowRec())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if f := m.exit(4, "serve", "--listen", ln.Addr().String(), "--json").fault(); f.Code != core.CodeAuth {
			t.Errorf("without a key: %+v", f)
		}
		m.ok("server", "key", "add", "ci")
		if f := m.exit(13, "serve", "--listen", ln.Addr().String(), "--json").fault(); !strings.Contains(f.Message, "cannot listen") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("Damaged", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t, allowRec())
		p := m.serving()
		p.kill()
		db := filepath.Join(m.Home, "server.db")
		if err := os.Truncate(db, 100); err != nil {
			t.Fatal(err)
		}
		if f := m.exit(1, "serve", "--json").fault(); f.Code != core.CodeStoreFailed {
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
	m := newMachine(t, allowRec())
	token := strings.TrimSpace(m.ok("server", "key", "add", "ci").Stdout)
	m.serving("--listen", "127.0.0.1:0")
	url := m.status(0).Server.URL
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
	m.ok("server", "key", "rm", "ci")
	if got := get("/api/v1/workflows", token); got != 401 {
		t.Errorf("a key that was removed: %d", got)
	}
	var keys api.Page[json.RawMessage]
	if m.ok("server", "key", "ls", "--json").decode(&keys); len(keys.Items) != 0 {
		t.Errorf("keys %s", keys.Items)
	}
}

// TestServer_StopsInTime: a server that runs something stops within its grace,
// says what it leaves, and the next one goes on with it.
func TestServer_StopsInTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.stopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	m.setenv("PML_NO_AUTOSTART", "1") // who waits must not start the next one
	p := m.serving()
	id := strings.TrimSpace(m.ok("execute", "--code",
		`await mcp.rec.inc({key: "a"}); await mcp.rec.wait({file: "`+gate+`"}); return (await mcp.rec.inc({key: "b"})).count`, "--detach").Stdout)
	waitFor(t, "the second call runs", func() bool { return m.count("wait") == 1 })
	waiter := m.start("execute", "--code", `await mcp.rec.wait({file: "`+gate+`"}); return "waited"`, "--detach", "--wait", "150s")
	waitFor(t, "the waiter's call runs", func() bool { return m.count("wait") == 2 })
	began := time.Now()
	wants(t, m.ok("server", "stop").Stdout, "stopped", "2 running")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("stopping took %s", took)
	}
	if out := p.wait(); out.Exit != 0 {
		t.Errorf("exit %d: %s", out.Exit, out.Stderr)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.serving()
	if out := waiter.wait(); out.Exit != 0 || out.Stdout != "waited\n" {
		t.Errorf("who waited for a run through the restart: exit %d, %q\n%s", out.Exit, out.Stdout, out.Stderr)
	}
	m.ok("workflows", "watch", id)
	if out := m.ok("workflows", "result", id); out.Stdout != "1\n" || m.count("inc") != 2 {
		t.Errorf("result %q, inc ran %d times", out.Stdout, m.count("inc"))
	}
}

// TestServer_Idle: a server that nobody needs leaves by itself, and a run that
// only waits for a person does not keep it.
func TestServer_Idle(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.stopAtEnd()
	p := m.serving("--idle", "500ms")
	m.exit(8, "execute", "--code", `await mcp.rec.danger({x: "a"})`, "--detach", "--wait", "150s")
	if out := p.wait(); out.Exit != 0 {
		t.Errorf("exit %d: %s", out.Exit, out.Stderr)
	}
	wants(t, p.wait().Stderr, "nobody needs the server")
	if list := m.approvals(); len(list) != 1 || list[0].Side != core.SideServer {
		t.Errorf("approvals %+v", list)
	}
}

// TestServer_Metrics: what a server did can be read by Prometheus.
func TestServer_Metrics(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.serving()
	m.execute(0, `await mcp.rec.echo({value: 1})`, "--detach", "--wait", "150s")
	waiting := m.execute(8, `await mcp.rec.danger({x: "a"})`, "--detach", "--wait", "150s")
	m.json(0, "continue", string(waiting.WorkflowID), "--approve")
	waitFor(t, "all is counted", func() bool {
		resp, err := m.http().Get("http://pml/metrics")
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
