package upstream_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// handClock is moved by hand.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func TestHealth_OfARunningServer(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	if h, ok := m.Health("good", l.Workspace); ok {
		t.Errorf("it was never started: %+v", h)
	}
	pid, err := call(t, m, l, "pid", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := m.Health("good", l.Workspace)
	if !ok || h.State != "running" || strconv.Itoa(h.PID) != pid || h.Protocol != "2025-06-18" || h.Server != "child 1" || h.Start <= 0 || h.Failures != 0 || h.LastError != "" {
		t.Errorf("%v %+v", ok, h)
	}
	if _, ok := m.Health("good", "/elsewhere"); ok {
		t.Error("another workspace's")
	}
	_, err = call(t, m, l, "die", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	if _, err := call(t, m, l, "pid", `{}`); err != nil {
		t.Fatal(err)
	}
	if h, _ := m.Health("good", l.Workspace); h.State != "running" || h.Failures != 0 || h.PID == 0 || strconv.Itoa(h.PID) == pid {
		t.Errorf("%+v", h)
	}
}

func TestHealth_OfAFailingServer(t *testing.T) {
	t.Parallel()
	clock := &handClock{now: time.Unix(1_000_000, 0)}
	m := newManager(t, func(o *upstream.Options) { o.Clock = clock })
	l := launch(t, "exits")
	for i := range 4 {
		_, err := call(t, m, l, "echo", `{}`)
		wantError(t, err, core.CodeServerUnreachable, "server \"exits\" stopped before it was ready: exit status 7; it last said:\nmissing configuration")
		h, _ := m.Health("exits", l.Workspace)
		if h.State != "failing" || h.Failures != i+1 || h.LastError != err.Error() || h.Stderr != "missing configuration" || h.PID != 0 {
			t.Errorf("%+v", h)
		}
		var wait time.Duration
		if i > 0 {
			wait = 100 * time.Millisecond << (i - 1)
		}
		if want := clock.now.Add(wait); wait > 0 && !h.RetryAt.Equal(want) || wait == 0 && !h.RetryAt.IsZero() {
			t.Errorf("after %d failures again at %s", i+1, h.RetryAt)
		}
	}
	clock.mu.Lock()
	clock.now = clock.now.Add(time.Minute)
	clock.mu.Unlock()
	if h, _ := m.Health("exits", l.Workspace); !h.RetryAt.IsZero() {
		t.Errorf("again at %s, which has passed", h.RetryAt)
	}
}

func TestHealth_ShowsForeignTextAsItIs(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "escapes")
	_, err := call(t, m, l, "pid", `{}`)
	wantCode(t, err, core.CodeServerUnreachable)
	h, _ := m.Health("escapes", l.Workspace)
	for _, text := range []string{h.Stderr, h.LastError, err.Error()} {
		if strings.ContainsRune(text, 0x1b) || !strings.Contains(text, `\x1b[2J`) {
			t.Errorf("%q", text)
		}
	}
}

// A crash loop backs off even when each process lists its tools before it dies.
func TestManager_BacksOffFromACrashLoop(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	l := launch(t, "good")
	for range 3 {
		if _, err := m.Tools(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		_, err := call(t, m, l, "die", `{}`)
		wantCode(t, err, core.CodeServerUnreachable)
	}
	if h, _ := m.Health("good", l.Workspace); h.State != "failing" || h.Failures != 3 {
		t.Errorf("%+v", h)
	}
}

func TestStop_EndsTheProcessAndItsCalls(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *upstream.Options) { o.Limits.StopGrace = 10 * time.Minute })
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, m, l, "hang", `{}`)
		failed <- err
	}()
	r := <-p.calls
	first := line(t, r)
	line(t, r)
	done := within(t, soon)
	m.Stop("good", "/elsewhere")
	m.Stop("good", l.Workspace)
	wantError(t, <-failed, core.CodeServerUnreachable, `server "good" was stopped while calling hang`)
	gone(t, r)
	h, ok := m.Health("good", l.Workspace)
	if !ok || h.State != "stopped" || h.PID != 0 || h.Failures != 0 || h.LastError != "" {
		t.Errorf("%+v", h)
	}
	if pid, err := call(t, m, l, "pid", `{}`); err != nil || first == "good "+pid {
		t.Errorf("not started again: %s, %v", pid, err)
	}
	done()
}

func TestStop_EndsAStart(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "mute", p.env())
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, m, l, "pid", `{}`)
		failed <- err
	}()
	r := <-p.calls
	line(t, r)
	if h, ok := m.Health("mute", l.Workspace); !ok || h.State != "starting" || h.PID == 0 || h.PID == os.Getpid() {
		t.Errorf("%+v", h)
	}
	done := within(t, soon)
	m.Stop("mute", l.Workspace)
	wantError(t, <-failed, core.CodeServerUnreachable, `server "mute" was stopped while it was starting`)
	gone(t, r)
	done()
}

// What would run is checked before each process, and not before each call; what
// was changed is not run.
func TestLaunch_VerifiedBeforeEachProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t, nil)
	p, _ := newPhone(t)
	l := launch(t, "good", p.env())
	var mu sync.Mutex
	checks, changed := 0, false
	l.Verify = func() error {
		mu.Lock()
		defer mu.Unlock()
		checks++
		if changed {
			return core.Errorf(core.CodeIntegrityFailed, "the installed tree is another one")
		}
		return nil
	}
	for range 3 {
		if _, err := call(t, m, l, "pid", `{}`); err != nil {
			t.Fatal(err)
		}
	}
	<-p.calls
	mu.Lock()
	if checks != 1 {
		t.Errorf("%d checks of one process", checks)
	}
	changed = true
	mu.Unlock()
	m.Stop("good", l.Workspace)
	for range 3 {
		_, err := call(t, m, l, "pid", `{}`)
		wantError(t, err, core.CodeIntegrityFailed, "the installed tree is another one")
	}
	if len(p.calls) != 0 {
		t.Error("it was run")
	}
}
