package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// hung is longer than anything takes on the busiest machine.
const hung = 8 * time.Minute

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func newManager(t testing.TB, change func(*upstream.Options)) *upstream.Manager {
	t.Helper()
	opts := upstream.Options{Clock: wallClock{}, ClientName: "test", ClientVersion: "1"}
	opts.Limits.StopGrace = 300 * time.Millisecond
	opts.Limits.Start, opts.Limits.Call = hung, hung
	if change != nil {
		change(&opts)
	}
	m := upstream.New(opts)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func launch(t testing.TB, mode string, env ...string) upstream.Launch {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the children of these tests need a unix")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Launch{Name: mode, Workspace: t.TempDir(), Command: self, Env: append([]string{"PML_TEST_SERVER=" + mode}, env...), Digest: "d1"}
}

// phone is a listener that children call: what they say, and their end.
type phone struct {
	addr  string
	calls chan *bufio.Reader
}

func newPhone(t *testing.T) (*phone, chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &phone{addr: l.Addr().String(), calls: make(chan *bufio.Reader, 64)}
	conns := make(chan net.Conn, 64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.calls <- bufio.NewReader(c)
			conns <- c
		}
	}()
	return p, conns
}

func (p *phone) env() string { return "PML_TEST_PHONE=" + p.addr }

// line reads one line of a child.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal("the child hung up: ", err)
	}
	return strings.TrimSpace(s)
}

func call(t testing.TB, m *upstream.Manager, l upstream.Launch, tool, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	resp, err := m.Call(ctx, upstream.Request{Launch: l, Tool: tool, Args: json.RawMessage(args)})
	return string(resp.Value), err
}

func wantCode(t *testing.T, err error, code core.Code, parts ...string) {
	t.Helper()
	if got := core.CodeOf(err); got != code {
		t.Fatalf("code %q, want %q: %v", got, code, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestCall_Results(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	for _, tt := range []struct{ tool, args, want string }{
		{"echo", `{"num":12345678901234567890.10,"s":"é<"}`, `{"num":12345678901234567890.10,"s":"é<"}`},
		{"echo", ``, `{}`},
		{"split", `{}`, `"grüße €"`},
		{"invalid-utf8", `{}`, `"a` + "\uFFFD" + `b"`},
		{"ask", `{"text":"ping"}`, `{}`},
		{"ask", `{"text":"roots/list"}`, `{"roots":[{"uri":"file://` + l.Workspace + `"}]}`},
		{"cwd", `{}`, `"` + l.Workspace + `"`},
	} {
		got, err := call(t, m, l, tt.tool, tt.args)
		if err != nil {
			t.Fatal(tt.tool, err)
		}
		if diff := cmp.Diff(tt.want, unescape(got)); diff != "" {
			t.Errorf("%s %s:\n%s", tt.tool, tt.args, diff)
		}
	}
}

// unescape undoes the escaping of < that encoding/json adds on the way.
func unescape(s string) string { return strings.ReplaceAll(s, `\u003c`, "<") }

func TestCall_SamplingRefusedNotFatal(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	got, err := call(t, m, l, "ask", `{"text":"sampling/createMessage"}`)
	if err != nil || !strings.Contains(got, "code") {
		t.Fatalf("%s, %v", got, err)
	}
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
}

func TestCall_Failures(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 10_000 })
	l := launch(t, "good")
	_, err := call(t, m, l, "fail", `{}`)
	wantCode(t, err, core.CodeToolFailed, "no such city")
	_, err = call(t, m, l, "ecko", `{}`)
	wantCode(t, err, core.CodeNoSuchTool, "ecko", "echo")
	_, err = call(t, m, l, "echo", `[1]`)
	wantCode(t, err, core.CodeInvalidArguments, "object")
	_, err = call(t, m, l, "big", `{"n":6000}`) // parsed, then refused
	wantCode(t, err, core.CodeResultTooLarge, "good:big")
	_, err = call(t, m, l, "big", `{"n":3000000}`) // never held
	wantCode(t, err, core.CodeResultTooLarge, "good:big")
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal("the connection does not go on: ", err)
	}
	l.ResultBytes = 4000 // as it is configured now
	_, err = call(t, m, l, "big", `{"n":6000}`)
	wantCode(t, err, core.CodeResultTooLarge, "4000")
	own := launch(t, "good")
	own.Digest, own.ResultBytes = "another", 4_000_000
	if _, err = call(t, m, own, "big", `{"n":1000000}`); err != nil {
		t.Error("a limit of the launch does not stand for that of all: ", err)
	}
}

// Scenario 22.
func TestCall_ServerDiesInMidCall(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	r := <-p.calls
	line(t, r)
	pending := make(chan error, 1)
	go func() {
		_, err := call(t, m, l, "hang", `{}`)
		pending <- err
	}()
	if got := line(t, r); got != "hanging" {
		t.Fatal(got)
	}
	began := time.Now()
	_, err = call(t, m, l, "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "exit status 3", "panic: out of cheese", "good")
	wantCode(t, <-pending, core.CodeServerUnreachable, "exit status 3")
	if d := time.Since(began); d > hung {
		t.Errorf("it took %s", d)
	}
	second, err := call(t, m, l, "pid", `{}`)
	if err != nil || second == first {
		t.Fatalf("not restarted: %s, %s, %v", first, second, err)
	}
}

func TestCall_StdoutClosedIsTheEnd(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	_, err := call(t, m, l, "mute-stdout", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
}

func TestCall_ServerWithoutHandshake(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "modern")
	if got, err := call(t, m, l, "echo", `{"a":1}`); err != nil || got != `{"a":1}` {
		t.Fatalf("%s, %v", got, err)
	}
	_, err := call(t, m, l, "input", `{}`)
	wantCode(t, err, core.CodeToolFailed, "asks for input")
}

func TestCall_UnknownToolAsAResult(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	_, err := call(t, m, l, "unknown-as-result", `{}`)
	wantCode(t, err, core.CodeToolFailed) // the tools are not known
	if _, err := m.Tools(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	_, err = call(t, m, l, "unknown-as-result", `{}`)
	wantCode(t, err, core.CodeNoSuchTool)
}

func TestManager_BacksOff(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "exits")
	for range 2 {
		_, err := call(t, m, l, "echo", `{}`)
		wantCode(t, err, core.CodeServerUnreachable)
	}
	h, _ := m.Health("exits", l.Workspace)
	_, err := call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if early := time.Until(h.RetryAt); early > 0 { // zero when a busy machine took longer than the wait
		t.Errorf("tried again %s too early", early)
	}
}

func TestCall_CannotStart(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	_, err := call(t, m, launch(t, "exits"), "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "exit status 7", "missing configuration")
	l := launch(t, "good")
	l.Command = "no-such-command"
	_, err = call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "no-such-command")
	l = launch(t, "good")
	l.Dir = filepath.Join(l.Workspace, "gone")
	_, err = call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "gone")
}

// Scenario 22: a slow server that ten runs call at once.
func TestCall_TenCallersOneProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, conns := newPhone(t)
	l := launch(t, "gated", p.env())
	pids := make(chan string, 10)
	for range 10 {
		go func() {
			pid, err := call(t, m, l, "pid", `{}`)
			if err != nil {
				pid = err.Error()
			}
			pids <- pid
		}()
	}
	started := line(t, <-p.calls)
	if _, err := (<-conns).Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if pid := <-pids; started != "gated "+pid {
			t.Errorf("answered by %s, started was %s", pid, started)
		}
	}
	if n := len(p.calls); n != 0 {
		t.Errorf("%d more processes", n)
	}
}

func TestCall_NoiseOnStdout(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	if _, err := call(t, m, launch(t, "noisy"), "echo", `{}`); err != nil {
		t.Fatal(err)
	}
}

func TestCall_BigStderr(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	_, err := call(t, m, launch(t, "chatty"), "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "out of cheese")
	if len(err.Error()) > 3000 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
}

// Scenario 23.
func TestCall_EnvironmentIsTheLaunchs(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good", "TOKEN=a b", "PATH=/usr/bin:/bin")
	got, err := call(t, m, l, "env", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	if err := json.Unmarshal([]byte(got), &env); err != nil {
		t.Fatal(err)
	}
	slices.Sort(env)
	want := []string{"PATH=/usr/bin:/bin", "PML_TEST_SERVER=good", "TOKEN=a b"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
}

// Scenario 18, the part of this package.
func TestCall_CancelledAtOnceAndUpstreamTold(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, upstream.Request{Launch: l, Tool: "hang"})
		done <- err
	}()
	r := <-p.calls
	line(t, r)
	if got := line(t, r); got != "hanging" {
		t.Fatal(got)
	}
	cause := errors.New("aborted by a person")
	cancel(cause)
	err := <-done
	wantCode(t, err, core.CodeCancelled, "good:hang")
	if !errors.Is(err, cause) {
		t.Errorf("the cause is lost: %v", err)
	}
	if got := line(t, r); got != "cancelled" {
		t.Errorf("the server heard %q", got)
	}
}

func TestCall_TimeoutTellsUpstream(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	_, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: "hang", Timeout: 2 * time.Second})
	wantCode(t, err, core.CodeToolTimeout, "good:hang", "2s")
	r := <-p.calls
	line(t, r)
	line(t, r)
	if got := line(t, r); got != "cancelled" {
		t.Errorf("the server heard %q", got)
	}
}

func TestCall_Progress(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	var got []string
	_, err := m.Call(context.Background(), upstream.Request{Launch: launch(t, "good"), Tool: "progress",
		Progress: func(message string, done, total float64) {
			got = append(got, fmt.Sprint(message, " ", done, "/", total))
		}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"step 1 1/3", "step 2 2/3", "step 3 3/3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTools_PagesCacheAndChange(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	list := func() []core.Tool {
		tools, err := m.Tools(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		return tools
	}
	yes := true
	want := []core.Tool{
		{Server: "good", Name: "echo", InputSchema: json.RawMessage(`{"type":"object","maximum":1.0}`), Annotations: core.Annotations{ReadOnly: &yes}},
		{Server: "good", Name: "hang", Description: "waits"},
	}
	first := list()
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	if again := list(); &again[0] != &first[0] {
		t.Error("asked again")
	}
	if _, err := call(t, m, l, "changed", `{}`); err != nil {
		t.Fatal(err)
	}
	if again := list(); &again[0] == &first[0] {
		t.Error("not asked again after list_changed")
	}
}

// gone reads until a child's line is dead.
func gone(t *testing.T, r *bufio.Reader) {
	t.Helper()
	for {
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
	}
}

func TestManager_CloseKillsGrandchildren(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"parent", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m := newManager(t, nil)
			p, _ := newPhone(t)
			if _, err := call(t, m, launch(t, mode, p.env()), "pid", `{}`); err != nil {
				t.Fatal(err)
			}
			a, b := <-p.calls, <-p.calls
			began := time.Now()
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			gone(t, a)
			gone(t, b)
			if d := time.Since(began); d > hung {
				t.Errorf("closing took %s", d)
			}
			_, err := call(t, m, launch(t, mode), "pid", `{}`)
			wantCode(t, err, core.CodeCancelled, "stopping")
		})
	}
}

func TestManager_CloseEndsPendingCalls(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	done := make(chan error, 1)
	go func() {
		_, err := call(t, m, l, "hang", `{}`)
		done <- err
	}()
	r := <-p.calls
	line(t, r)
	line(t, r)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	wantCode(t, <-done, core.CodeCancelled, "stopping")
}

func TestManager_IdleStop(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.Idle = time.Millisecond })
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	for range 2 { // and it starts again
		if _, err := call(t, m, l, "pid", `{}`); err != nil {
			t.Fatal(err)
		}
		gone(t, <-p.calls)
	}
}

func TestManager_AnotherDigestIsAnotherProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	l.Digest = "d2"
	second, err := call(t, m, l, "pid", `{}`)
	if err != nil || first == second {
		t.Fatalf("%s, %s, %v", first, second, err)
	}
	gone(t, <-p.calls) // the old one is stopped without being idle first
}

func TestManager_PerServerLimit(t *testing.T) {
	t.Parallel()
	for name, bounded := range map[string]func(o *upstream.Options, l *upstream.Launch){
		"Manager": func(o *upstream.Options, _ *upstream.Launch) { o.Limits.PerServer = 1 },
		"Launch":  func(_ *upstream.Options, l *upstream.Launch) { l.AtOnce = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			l := launch(t, "good", p.env())
			m := newManager(t, func(o *upstream.Options) { bounded(o, &l) })
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = m.Call(ctx, upstream.Request{Launch: l, Tool: "hang"}) })
			r := <-p.calls
			line(t, r)
			line(t, r)
			short, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer stop()
			queued := 0
			_, err := m.Call(short, upstream.Request{
				Launch: l, Tool: "pid", Queued: func() { queued++ }, Before: func(context.Context) error { t.Error("it was sent"); return nil },
			})
			wantCode(t, err, core.CodeCancelled)
			if queued != 1 {
				t.Errorf("told %d times that it waits", queued)
			}
			wide := l
			wide.AtOnce = 2 // the configuration has changed
			if _, err := call(t, m, wide, "pid", `{}`); err != nil {
				t.Fatal(err)
			}
			cancel()
			wg.Wait()
			if _, err := call(t, m, l, "pid", `{}`); err != nil {
				t.Fatal(err)
			}
		})
	}
}
