//go:build unix

// Package main_test runs pml with Temporal as its engine: the program as it is built, against a server of Temporal
// with its data on the disk.
package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/skiptest"
)

func TestMain(m *testing.M) { pmltest.Main(m) }

// engine builds pml-temporal, and starts Temporal with its data in a file. It returns the folder of the program, and the
// address of a namespace that nobody has prepared.
func engine(t *testing.T) (dir, address string) {
	t.Helper()
	program := os.Getenv("PML_TEST_TEMPORAL")
	if program == "" {
		skiptest.Missing(t, "needs Temporal's command (PML_TEST_TEMPORAL names one; docs/temporal.md says how it is built)")
	}
	dir = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "store/temporal", "-buildvcs=false", "-o", filepath.Join(dir, "pml-temporal"), "./cmd/pml-temporal")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().(*net.TCPAddr)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	dev := exec.Command(program, "server", "start-dev", "--headless", "--port", strconv.Itoa(at.Port), "--db-filename", filepath.Join(t.TempDir(), "temporal.db"), "--log-level", "error")
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		_ = dev.Wait()
	})
	return dir, fmt.Sprintf("temporal://%s/e2e", at)
}

// machine is a machine whose servers keep their runs at an address.
func machine(t *testing.T, dir, address string) *pmltest.Machine {
	t.Helper()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m.Setenv("PML_NO_AUTOSTART", "1")
	m.Setenv("PML_ENGINE", address)
	return m
}

// prepare prepares the namespace of an address as soon as Temporal answers.
func prepare(m *pmltest.Machine, address string) {
	m.T.Helper()
	pmltest.WaitFor(m.T, "Temporal answers", func() bool {
		return !strings.Contains(m.PML("doctor", "--engine", address).Stdout, "does not answer")
	})
	m.OK("doctor", "--engine", address, "--prepare")
}

// asks is a graph of four calls one after the other: one that is asked about, and one that waits for a file.
func asks(m *pmltest.Machine, file string) string {
	m.T.Helper()
	return m.DAG("asks.json",
		pmltest.Task("a", "rec:inc", `{"key":"a"}`, nil), pmltest.Task("d", "rec:danger", `{"x":"1"}`, pmltest.After("a")),
		pmltest.Task("w", "rec:wait", fmt.Sprintf(`{"file":%q}`, file), pmltest.After("d")), pmltest.Task("b", "rec:inc", `{"key":"b"}`, pmltest.After("w")))
}

// begun starts the graph on the server, and returns its run once it waits for a decision.
func begun(m *pmltest.Machine, file string) core.ID {
	m.T.Helper()
	id := core.ID(strings.TrimSpace(m.OK("execute", asks(m, file), "--detach").Stdout))
	pmltest.WaitFor(m.T, "somebody is asked", func() bool { return len(m.Approvals()) == 1 })
	return id
}

// reader follows the events of a server, over its restarts.
type reader struct {
	mu   sync.Mutex
	list []core.Event
}

func follow(m *pmltest.Machine) *reader {
	m.T.Helper()
	c, err := client.New(client.Options{Socket: m.Socket(), Workspace: m.WS, Clock: pmltest.Clock{}, Limits: client.Limits{Away: time.Hour}})
	if err != nil {
		m.T.Fatal(err)
	}
	r := &reader{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := c.Events(ctx, "", api.Since{}, true, func(e core.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.list = append(r.list, e)
			return nil
		})
		if ctx.Err() == nil {
			m.T.Errorf("a reader of events gave up: %v", err)
		}
	}()
	m.T.Cleanup(func() {
		cancel()
		<-done
		_ = c.Close()
	})
	return r
}

// has reports whether an event of a run has come.
func (r *reader) has(run core.ID, typ core.EventType) bool {
	return slices.ContainsFunc(r.of(run), func(e core.Event) bool { return e.Type == typ })
}

// of are the events of a run that have come.
func (r *reader) of(run core.ID) (list []core.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e.RunID == run {
			list = append(list, e)
		}
	}
	return list
}

// want wants the events of a run to be those that the server lists, with their numbers, and of all types.
func (r *reader) want(m *pmltest.Machine, run core.ID, types ...core.EventType) {
	m.T.Helper()
	pmltest.WaitFor(m.T, "the end of the run is told", func() bool { return r.has(run, core.EventWorkflowComplete) })
	var got []core.EventType
	last := int64(0)
	for _, e := range r.of(run) {
		if e.Seq <= last {
			m.T.Errorf("after the event %d comes %d", last, e.Seq)
		}
		last = e.Seq
		got = append(got, e.Type)
	}
	if !slices.Equal(got, types) {
		m.T.Errorf("events: %v\nwant: %v", got, types)
	}
}

// completed are the types of the events of a run of asks whose server was killed in the call that waits.
var completed = []core.EventType{
	core.EventWorkflowStart, core.EventApprovalRequested, core.EventDecisionRequired, core.EventApprovalResolved,
	core.EventTaskStart, core.EventTaskComplete, core.EventCheckpoint, core.EventTaskStart, core.EventTaskComplete, core.EventCheckpoint,
	core.EventTaskStart, core.EventTaskStart, core.EventTaskComplete, core.EventCheckpoint,
	core.EventTaskStart, core.EventTaskComplete, core.EventCheckpoint, core.EventWorkflowComplete,
}

// wantCalls wants the calls of a run of asks whose call that only reads ran twice.
func wantCalls(m *pmltest.Machine) {
	m.T.Helper()
	var got []string
	for _, call := range m.Calls() {
		name, _, _ := strings.Cut(call, " ")
		got = append(got, name)
	}
	if want := []string{"inc", "danger", "wait", "wait", "inc"}; !slices.Equal(got, want) {
		m.T.Errorf("calls: %v, want %v", got, want)
	}
}

// TestServe: pml serve goes on as pml-temporal. Its runs survive kill -9, before and after a decision, and go on when it
// is started again; nothing runs twice, and who follows the events gets each once.
func TestServe(t *testing.T) {
	t.Parallel()
	dir, address := engine(t)
	m := machine(t, dir, address)
	prepare(m, address)
	p := m.Serving()
	if s := m.Status(0); s.Server.Store != "temporal" {
		t.Errorf("%+v", s.Server)
	}
	r, file := follow(m), filepath.Join(m.Dir, "go-on")
	id := begun(m, file)
	p.Kill()
	p = m.Serving()
	q := m.Start("continue", string(id), "--approve", "--yes", "--json")
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return m.Count("wait") == 1 })
	p.Kill()
	p = m.Serving()
	pmltest.WaitFor(t, "the next server runs it", func() bool { return m.Count("wait") == 2 })
	pmltest.Touch(t, file)
	if res := q.Wait().Want(0).Result(); res.Status != api.StatusComplete {
		t.Errorf("status %s", res.Status)
	}
	r.want(m, id, completed...)
	if w := m.Workflow(id); w.State != core.RunComplete {
		t.Errorf("the run is %s", w.State)
	}
	wantCalls(m)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(0)
}

// TestServe_Two: two servers have the same runs. What one is asked the other one answers, and takes over when the first
// is killed; its readers get the events of both.
func TestServe_Two(t *testing.T) {
	t.Parallel()
	dir, address := engine(t)
	a := machine(t, dir, "")
	b := a.In(t)
	address += "?blobs=" + filepath.Join(a.Dir, "blobs")
	b.Home = filepath.Join(a.Dir, "other")
	b.Setenv("PML_HOME", b.Home)
	b.OK("trust", "--yes")
	prepare(a, address)
	a.Setenv("PML_ENGINE", address)
	b.Setenv("PML_ENGINE", address)
	first := a.Serving()
	b.Serving()
	r, file := follow(b), filepath.Join(a.Dir, "go-on")
	id := begun(a, file)
	pmltest.WaitFor(t, "the other one asks, too", func() bool { return len(b.Approvals()) == 1 })
	q := b.Start("continue", string(id), "--approve", "--yes", "--json")
	pmltest.WaitFor(t, "the call in the middle runs", func() bool { return a.Count("wait") == 1 })
	first.Kill()
	pmltest.WaitFor(t, "the other one runs it", func() bool { return a.Count("wait") == 2 })
	pmltest.Touch(t, file)
	if res := q.Wait().Want(0).Result(); res.Status != api.StatusComplete {
		t.Errorf("status %s", res.Status)
	}
	r.want(b, id, completed...)
	wantCalls(a)
}

// TestServe_Person: where people decide, an answer at a terminal counts that pml asks for, beside which pml-temporal lies; one for a
// pml elsewhere does not.
func TestServe_Person(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only there a server sees who is at a terminal")
	}
	dir, address := engine(t)
	c := pmltest.AllowRec()
	c.Approvals = map[string]any{"decider": "human"}
	m := pmltest.NewMachine(t, c)
	m.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m.Setenv("PML_NO_AUTOSTART", "1")
	m.Setenv("PML_ENGINE", address)
	prepare(m, address)
	p := m.Serving()
	if m.OK("execute", "--code", `return (await mcp.rec.danger({x: "1"})).done`, "--detach"); m.T.Failed() {
		return
	}
	pmltest.WaitFor(t, "somebody is asked", func() bool { return len(m.Approvals()) == 1 })
	ap := m.Approvals()[0]
	if s := m.ApproveOnTerminal(ap); s.Exit != 8 || m.Count("danger") != 0 {
		t.Errorf("for a pml elsewhere: exit %d: %q", s.Exit, s.Text)
	}
	p.Kill()
	if err := os.Link(m.Binary(), filepath.Join(dir, "pml")); err != nil {
		t.Skip("the program that is built is on another disk: ", err)
	}
	m.Serving()
	if s := m.ApproveOnTerminal(ap); s.Exit != 0 || m.Count("danger") != 1 {
		t.Errorf("for the pml beside it: exit %d: %q", s.Exit, s.Text)
	}
}

// TestDoctor: what is missing is said, with the command that helps, which does.
func TestDoctor(t *testing.T) {
	t.Parallel()
	dir, address := engine(t)
	m := machine(t, dir, "")
	prepared := strings.Replace(address, "/e2e", "/fresh", 1)
	pmltest.WaitFor(t, "Temporal answers", func() bool {
		return !strings.Contains(m.PML("doctor", "--engine", prepared).Stdout, "does not answer")
	})
	if out := m.Exit(1, "doctor", "--engine", prepared).Stdout; !strings.Contains(out, "next: pml doctor --engine "+prepared+" --prepare") {
		t.Errorf("nobody says what helps: %s", out)
	}
	m.OK("doctor", "--engine", prepared, "--prepare")
	if out := m.OK("doctor", "--engine", prepared).Stdout; strings.Contains(out, "fail") || !strings.Contains(out, "all 7 are there") {
		t.Errorf("after it was prepared: %s", out)
	}
	if o := m.PML("serve", "--engine", address+"-not"); o.Exit == 0 || !strings.Contains(o.Stderr, "pml doctor --engine") {
		t.Errorf("a server in a namespace that nobody has prepared: %d %s", o.Exit, o.Stderr)
	}
	m.Setenv("PML_TEMPORAL_API_KEY", "very-secret")
	if o := m.PML("doctor", "--engine", prepared); o.Exit == 0 || !strings.Contains(o.Stderr, "tls=on") || strings.Contains(o.Stderr+o.Stdout, "very-secret") {
		t.Errorf("a key in clear: %d %s %s", o.Exit, o.Stdout, o.Stderr)
	}
}
