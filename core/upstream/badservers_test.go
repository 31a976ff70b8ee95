package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// soon is far below every limit that applies, and far above what is needed on a
// busy machine.
const soon = 3 * time.Minute

// badServers are what some children do before they begin to serve.
var badServers = map[string]func(*child){
	"usage":      failing("I1122 starting\nError: invalid configuration: no configuration has been provided\n", ""),
	"usage-weak": failing("kubeconfig could not be loaded\n", ""),
	"usage-last": failing("", "Error: no kubeconfig\n"),
	"usage-only": failing("", ""),
	"usage-old":  failing("Error: of an earlier time\n"+strings.Repeat("it works\n", 500), ""),
	"flood": func(*child) { // of its log, before it reads anything
		line := strings.Repeat("x", 1<<20-1) + "\n"
		for range 100 {
			fmt.Fprint(os.Stderr, line)
		}
		fmt.Fprintln(os.Stderr, "the last words")
	},
	"log-first": func(*child) {
		fmt.Print(`{"level":"info","id":1,"jsonrpc":"ready"}` + "\n2026-11-21 listening on stdio ")
	},
	"emigrant": func(*child) { // its child leaves the process group
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PML_TEST_SERVER=sleeper")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		leaveGroup(cmd)
		if cmd.Start() != nil {
			os.Exit(8)
		}
	},
	"escapes": func(*child) {
		fmt.Fprint(os.Stderr, "\x1b[2Jhello")
		os.Exit(1)
	},
	"silent-lives": func(*child) {
		signal.Ignore(syscall.SIGTERM)
		_ = os.Stdout.Close()
		select {}
	},
	"exits-late": func(*child) { // as a busy machine ends a process: long after its output was closed
		_ = os.Stdout.Close()
		<-time.After(time.Second)
		fmt.Fprintln(os.Stderr, "missing configuration")
		os.Exit(7)
	},
	"endless-line": func(c *child) { // after its handshake, for the first call
		in := bufio.NewReader(os.Stdin)
		for calls := 0; ; {
			text, err := in.ReadBytes('\n')
			var msg message
			if err != nil || json.Unmarshal(text, &msg) != nil {
				os.Exit(0)
			}
			switch {
			case msg.Method != "tools/call":
				c.handle("good", msg, text)
				continue
			case calls > 0:
				c.result(msg.ID, fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, os.Getpid()))
				continue
			}
			calls++
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, msg.ID)
			chunk := strings.Repeat("x", 1<<20)
			for range 64 {
				fmt.Print(chunk)
			}
			fmt.Print("\"}]}}\n")
		}
	},
	"asks-first": func(c *child) { // a request with the id of our initialize
		c.send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"no/such"}`)
	},
}

// known are the methods of an old and simple server.
func known(method string) bool {
	switch method {
	case "", "initialize", "notifications/initialized", "tools/list", "tools/call":
		return true
	}
	return false
}

// strictServers say of a method whether they are done with it.
var strictServers = map[string]func(c *child, method string) bool{
	"ignores-unknown": func(c *child, method string) bool {
		if !known(method) {
			fmt.Fprintln(c.phone, "unknown", method)
		}
		return !known(method)
	},
	"stops-reading": func(c *child, method string) bool {
		if method == "notifications/initialized" {
			c.deaf.Store(true)
		}
		return false
	},
	"tells-all": func(c *child, method string) bool {
		fmt.Fprintln(c.phone, method)
		return false
	},
	"exits-on-unknown": func(_ *child, method string) bool {
		if !known(method) {
			fmt.Fprintln(os.Stderr, "unknown method", method)
			os.Exit(4)
		}
		return false
	},
}

// within fails the test when what it returns is not called soon.
func within(t *testing.T, limit time.Duration) (done func()) {
	t.Helper()
	began := time.Now()
	return func() {
		t.Helper()
		if d := time.Since(began); d > limit {
			t.Errorf("it took %s, more than %s", d, limit)
		}
	}
}

func wantError(t *testing.T, err error, code core.Code, words string) {
	t.Helper()
	if core.CodeOf(err) != code || err.Error() != words {
		t.Errorf("code %q, want %q:\n got %v\nwant %s", core.CodeOf(err), code, err, words)
	}
}

func TestBadServer_IgnoresUnknownMethods(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "ignores-unknown", p.env())
	done := within(t, soon)
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Tools(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	done()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	r := <-p.calls
	line(t, r)
	if s, err := r.ReadString('\n'); err == nil {
		t.Errorf("it was asked what it does not know: %s", s)
	}
}

func TestBadServer_ExitsOnUnknownMethods(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "exits-on-unknown")
	defer within(t, soon)()
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Tools(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if again, err := call(t, m, l, "pid", `{}`); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

func TestBadServer_LogBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	defer within(t, soon)()
	for _, mode := range []string{"noisy", "log-first"} {
		if got, err := call(t, m, launch(t, mode), "echo", `{"a":1}`); err != nil || got != `{"a":1}` {
			t.Errorf("%s: %s, %v", mode, got, err)
		}
	}
}

// What a server asks under the ids of our own requests is answered, and never
// taken for an answer.
func TestBadServer_RequestsWithOurIDs(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "asks-first")
	for method, want := range map[string]string{
		"ping":                   `{}`,
		"roots/list":             `{"roots":[{"uri":"file://` + l.Workspace + `"}]}`,
		"sampling/createMessage": `{"code":-32601,"message":"pml does not offer sampling/createMessage to servers"}`,
		"elicitation/create":     `{"code":-32601,"message":"pml does not offer elicitation/create to servers"}`,
		"no/such":                `{"code":-32601,"message":"pml does not offer no/such to servers"}`,
	} {
		if got, err := call(t, m, l, "ask", `{"text":"`+method+`"}`); err != nil || got != want {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
}

func TestBadServer_SplitsCharactersAndJoinsLines(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	for tool, want := range map[string]string{"split": `"grüße €"`, "bytewise": `"grüße €😀"`, "twice": `"first"`} {
		if got, err := call(t, m, l, tool, `{}`); err != nil || got != want {
			t.Errorf("%s: %s, %v", tool, got, err)
		}
	}
}

func TestBadServer_AnswersWithoutAResult(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = call(t, m, l, "empty", `{}`)
	wantError(t, err, core.CodeServerUnreachable, `server "good" is of no use for calling empty: it answers with neither a result nor an error`)
	_, err = call(t, m, l, "null", `{}`)
	wantCode(t, err, core.CodeToolFailed, "not an MCP result")
	if again, err := call(t, m, l, "pid", `{}`); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

// Scenario 22.
func TestBadServer_DiesInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	done := within(t, soon)
	_, err = call(t, m, l, "die", `{}`)
	wantError(t, err, core.CodeServerUnreachable, "server \"good\" stopped while calling die: exit status 3; it last said:\npanic: out of cheese")
	if second, err := call(t, m, l, "pid", `{}`); err != nil || second == first {
		t.Errorf("not restarted: %s, %s, %v", first, second, err)
	}
	done()
}

// Scenario 22.
func TestBadServer_NeverAnswersInitialize(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.Start = 5 * time.Second })
	defer within(t, soon)()
	_, err := call(t, m, launch(t, "mute"), "echo", `{}`)
	wantError(t, err, core.CodeServerUnreachable,
		"server \"mute\" did not answer initialize within 5s; it last said:\nwaiting for a database that is not there")
}

// What a server prints on stdout beside its messages is named: nobody else sees it.
func TestBadServer_Banner(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.Start = 5 * time.Second })
	defer within(t, soon)()
	_, err := call(t, m, launch(t, "banner"), "echo", `{}`)
	wantError(t, err, core.CodeServerUnreachable,
		"server \"banner\" did not answer initialize within 5s; on stdout, where only MCP messages belong, it wrote \"Server listens on port 3000\": have it log to stderr")
}

// A server that answers in another protocol is told from one that does not answer.
func TestBadServer_OtherJSON(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.Start = 5 * time.Second })
	defer within(t, soon)()
	_, err := call(t, m, launch(t, "other-json"), "echo", `{}`)
	wantError(t, err, core.CodeServerUnreachable,
		`server "other-json" answered, but not with an MCP message, and came up with none within 5s: "{\"hello\":\"world\"}"; is it an MCP server?`)
}

// A server that does not read what it is sent is given up when too much waits.
func TestBadServer_DoesNotReadItsInput(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.PerServer = 100 })
	l := launch(t, "stops-reading")
	done := within(t, soon)
	errs := make(chan error, 80)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range cap(errs) {
		go func() {
			_, err := m.Call(ctx, upstream.Request{
				Launch: l, Tool: "echo", Args: json.RawMessage(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`), Timeout: hung,
			})
			errs <- err
		}()
	}
	wantError(t, <-errs, core.CodeServerUnreachable, `server "stops-reading" was given up while calling echo: it does not read its input`)
	done()
	// Those who call after it was given up get another process, for which they may be too
	// few to be given up with it.
	cancel()
	for range cap(errs) - 1 {
		if err := <-errs; err == nil {
			t.Error("a call was answered")
		}
	}
}

// A grandchild that leaves the process group is not followed, and does not
// hold up anything, though it holds the server's output open.
func TestBadServer_GrandchildThatLeftTheGroup(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, conns := newPhone(t)
	l := launch(t, "emigrant", p.env())
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	byMode, wires := map[string]*bufio.Reader{}, map[string]net.Conn{}
	for range 2 {
		r, wire := <-p.calls, <-conns
		mode, _, _ := strings.Cut(line(t, r), " ")
		byMode[mode], wires[mode] = r, wire
	}
	done := within(t, soon)
	_, err := call(t, m, l, "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "exit status 3", "out of cheese")
	done()
	gone(t, byMode["emigrant"])
	if _, err := wires["sleeper"].Write([]byte("still there?")); err != nil {
		t.Error("the grandchild is gone, which is more than is promised: ", err)
	}
	_ = wires["sleeper"].Close() // it ends by this
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadServer_IgnoresTERM(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	if _, err := call(t, m, launch(t, "deaf", p.env()), "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	done := within(t, soon) // two waits of 300 ms, then KILL
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	gone(t, <-p.calls)
	done()
}

func TestBadServer_FloodsItsLog(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "flood")
	defer within(t, soon)()
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	h, _ := m.Health("flood", l.Workspace)
	if len(h.Stderr) > 4100 || !strings.HasSuffix(h.Stderr, "the last words") {
		t.Errorf("%d bytes of stderr", len(h.Stderr))
	}
	_, err := call(t, m, l, "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable, "exit status 3", "out of cheese")
}

// Not parallel: it counts what is allocated.
func TestBadServer_ResultOf50MB(t *testing.T) {
	m := newManager(t, func(o *upstream.Options) { o.Limits.ResultBytes = 1 << 20 })
	l := launch(t, "good")
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := within(t, soon)
	_, err = call(t, m, l, "big", `{"n":26214400}`)
	done()
	runtime.ReadMemStats(&after)
	wantError(t, err, core.CodeResultTooLarge, "the result of good:big is longer than 1048576 bytes: ask for less, or raise limits.result_bytes")
	if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
		t.Errorf("%d bytes were allocated to refuse it", n)
	}
	if again, err := call(t, m, l, "pid", `{}`); err != nil || again != first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
}

func TestBadServer_ClosesItsOutputAndLives(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	first, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	done := within(t, soon)
	_, err = call(t, m, l, "mute-stdout", `{}`)
	wantError(t, err, core.CodeServerUnreachable, `server "good" stopped while calling mute-stdout: it closed its output and went on running`)
	if again, err := call(t, m, l, "pid", `{}`); err != nil || again == first {
		t.Errorf("%s, then %s, %v", first, again, err)
	}
	gone(t, <-p.calls) // it was ended
	_, err = call(t, m, launch(t, "silent-lives"), "pid", `{}`)
	wantError(t, err, core.CodeServerUnreachable, `server "silent-lives" stopped before it was ready: it closed its output and went on running`)
	done()
}

func TestBadServer_EndsLongAfterItsOutput(t *testing.T) {
	t.Parallel()
	_, err := call(t, newManager(t, nil), launch(t, "exits-late"), "pid", `{}`)
	wantError(t, err, core.CodeServerUnreachable, "server \"exits-late\" stopped before it was ready: exit status 7; it last said:\nmissing configuration")
}
