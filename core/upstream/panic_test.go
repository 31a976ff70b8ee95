package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// words is a log that is safe for concurrent use.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// panicky is a Manager whose log is kept.
func panicky(t *testing.T, change func(*upstream.Options)) (*upstream.Manager, *words) {
	t.Helper()
	log := &words{}
	return newManager(t, func(o *upstream.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		if change != nil {
			change(o)
		}
	}), log
}

// logged fails the test unless the log has the panic with its stack.
func (w *words) logged(t *testing.T) {
	t.Helper()
	if text := w.String(); !strings.Contains(text, "a panic in pml") || !strings.Contains(text, "panic_test.go") {
		t.Errorf("the log has no panic with a stack:\n%s", text)
	}
}

// A panic while a server's output is read breaks its connection: the call may have
// run. Other servers are well, and so is this one when it is called again.
func TestPanic_BreaksOneConnection(t *testing.T) {
	t.Parallel()
	m, log := panicky(t, nil)
	p, _ := newPhone(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hang := func(l upstream.Launch) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := m.Call(ctx, upstream.Request{Launch: l, Tool: "hang"})
			ended <- err
		}()
		r := <-p.calls
		line(t, r)
		line(t, r) // it hangs
		return ended
	}
	l := launch(t, "good", p.env())
	other, mine := hang(launch(t, "other", p.env())), hang(l)
	// The answer behind the progress may still be taken in.
	_, _ = m.Call(ctx, upstream.Request{Launch: l, Tool: "progress", Progress: func(string, float64, float64) { panic("a secret") }})
	err := <-mine
	wantCode(t, err, core.CodeServerUnreachable, "inside pml")
	if strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	log.logged(t)
	if got, err := call(t, m, l, "echo", `{"a":1}`); err != nil || got != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	cancel()
	wantCode(t, <-other, core.CodeCancelled) // not lost
}

// What a server tells a client may panic in whose hands it gets, over stdio and
// in a stream of HTTP: that is the end of the connection.
func TestPanic_Told(t *testing.T) {
	t.Parallel()
	const say = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	over := map[string]func(t *testing.T) upstream.Launch{
		"stdio": func(t *testing.T) upstream.Launch { t.Helper(); return launch(t, "rich") },
		"HTTP": func(t *testing.T) upstream.Launch {
			t.Helper()
			return remote(newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
				event("data: " + say + "\n\n")
				event(`data: {"jsonrpc":"2.0","id":` + string(id) + `,"result":` + text("ok") + "}\n\n")
			}).url)
		},
	}
	for name, server := range over {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := server(t) // before the Manager: it waits for its clients to go
			m, log := panicky(t, nil)
			h := newHost("a", allCapabilities)
			var once atomic.Bool
			h.Notify = func(string, json.RawMessage) {
				if once.CompareAndSwap(false, true) {
					panic("the client")
				}
			}
			l = with(l, h)
			_, _ = call(t, m, l, "t", `{"say":[`+say+`]}`) // the answer may be there already
			log.logged(t)
			if got, err := call(t, m, l, "t", `{}`); err != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// A client that panics when it is asked has not answered, and the server is told
// so, however it asks.
func TestPanic_Asked(t *testing.T) {
	t.Parallel()
	for mode, tt := range map[string]struct {
		args string
		code core.Code
	}{
		"rich":        {`{"ask":"elicitation/create"}`, ""},
		"rich-modern": {`{"input":{"x":{"method":"elicitation/create"}}}`, core.CodeToolFailed},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := newPhone(t)
			m, log := panicky(t, nil)
			h := newHost("a", allCapabilities)
			h.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) { panic("the client") }
			got, err := call(t, m, with(launch(t, mode, p.env()), h), "t", tt.args)
			if core.CodeOf(err) != tt.code {
				t.Fatalf("%s, %v", got, err)
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, "inside pml") {
				t.Error(got)
			}
			log.logged(t)
		})
	}
}

// A start that panics has failed, for all who wait for it, and leaves no child.
func TestPanic_Start(t *testing.T) {
	t.Parallel()
	m, log := panicky(t, nil)
	l := launch(t, "good")
	l.Verify = func() error { panic("the check") }
	_, err := call(t, m, l, "echo", `{}`)
	wantCode(t, err, core.CodeInternal, "while a server was started")
	log.logged(t)
	l.Verify = nil
	if got, err := call(t, m, l, "echo", `{}`); err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// Whoever is told that tools have changed may panic: the connection is well.
func TestPanic_ToolsChanged(t *testing.T) {
	t.Parallel()
	told := make(chan struct{}, 10)
	m, log := panicky(t, func(o *upstream.Options) {
		o.ToolsChanged = func(string, string) {
			defer func() { told <- struct{}{} }()
			panic("whoever is told")
		}
	})
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	for range 2 {
		if got, err := call(t, m, l, "changed", `{}`); err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		<-told
	}
	if got, err := call(t, m, l, "echo", `{}`); err != nil {
		t.Errorf("%s, %v", got, err)
	}
	log.logged(t)
	if len(p.calls) > 1 {
		t.Error("it was started again")
	}
}

// brokenClock panics as soon as it may.
type brokenClock struct{ broken *atomic.Bool }

func (c brokenClock) Now() time.Time {
	if c.broken.Load() {
		panic("the clock")
	}
	return time.Now()
}

// A list that makes pml panic could not be had; the group that shares it between
// callers would end the process.
func TestPanic_Listing(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	a := newAsker(t, func(_ *asker, id json.RawMessage, event func(string)) {
		event(`data: {"jsonrpc":"2.0","id":` + string(id) + `,"result":` + text("ok") + "}\n\n")
	})
	m, log := panicky(t, func(o *upstream.Options) { o.Clock = brokenClock{&broken} })
	if _, err := call(t, m, remote(a.url), "t", `{}`); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	_, err := m.Tools(context.Background(), remote(a.url))
	broken.Store(false)
	wantCode(t, err, core.CodeInternal, "tools of a server were read")
	log.logged(t)
	if _, err := call(t, m, remote(a.url), "t", `{}`); err != nil {
		t.Error(err)
	}
}
