//go:build linux

package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// hang is when a driver test gives up: what it waits for will never be.
const hang = time.Minute

// driver is a person at a terminal on which the whole program runs.
type driver struct {
	t        *testing.T
	clock    *fakeClock
	backend  *fakeBackend
	options  Options
	pty, tty *os.File
	before   string // of the terminal's settings
	stop     context.CancelCauseFunc
	ended    chan struct{}
	left     []core.ID
	err      error

	mu     sync.Mutex
	news   *sync.Cond
	screen vt10x.Terminal
	raw    bytes.Buffer
	rest   []byte // of a character
}

// start runs the program on a terminal of a size.
func start(t *testing.T, w, h int, change func(*driver)) *driver {
	t.Helper()
	bindings, err := keys.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, clock: &fakeClock{now: began}, backend: &fakeBackend{}, ended: make(chan struct{}), screen: vt10x.New(vt10x.WithSize(w, h))}
	d.news = sync.NewCond(&d.mu)
	if d.pty, d.tty, err = pty.Open(); err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(d.pty, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}); err != nil {
		t.Fatal(err)
	}
	d.before = d.settings()
	d.options = Options{
		Backend: d.backend, Clock: d.clock, In: d.tty, Out: d.tty, User: "ada", Version: "1.0.0", Workspace: "~/src/shop", Keys: bindings,
		Environ: vars("TERM=xterm-ghostty"), Palette: paint.Ansi, Profile: paint.Ansi16, Notify: NotifyBell,
	}
	if change != nil {
		change(d)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	d.stop = stop
	read := make(chan struct{})
	go func() { defer close(read); d.read() }()
	go func() {
		defer close(d.ended)
		d.left, d.err = Run(ctx, d.options)
	}()
	t.Cleanup(func() {
		stop(nil)
		<-d.ended
		d.tty.Close()
		<-read
		d.pty.Close()
	})
	return d
}

func (d *driver) settings() string {
	s, err := term.GetState(int(d.tty.Fd()))
	if err != nil {
		d.t.Fatal(err)
	}
	return fmt.Sprintf("%+v", *s)
}

// read takes what the program writes.
func (d *driver) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := d.pty.Read(buf)
		d.mu.Lock()
		d.raw.Write(buf[:n])
		d.rest = append(d.rest, buf[:n]...)
		end := len(d.rest)
		for back := 1; back < utf8.UTFMax && back <= len(d.rest); back++ {
			if i := len(d.rest) - back; utf8.RuneStart(d.rest[i]) && !utf8.FullRune(d.rest[i:]) {
				end = i
			}
		}
		d.screen.Write(d.rest[:end])
		d.rest = append(d.rest[:0], d.rest[end:]...)
		d.news.Broadcast()
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits until something is so.
func (d *driver) wait(what string, is func() bool) {
	d.t.Helper()
	late := false
	timer := time.AfterFunc(hang, func() { d.mu.Lock(); late = true; d.news.Broadcast(); d.mu.Unlock() })
	defer timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !is() {
		if late {
			d.t.Fatalf("waited in vain for %s; on the screen:\n%s", what, d.screen.String())
		}
		d.news.Wait()
	}
}

// sees waits until a text is on the screen.
func (d *driver) sees(text string) {
	d.t.Helper()
	d.wait(strconv.Quote(text), func() bool { return strings.Contains(d.screen.String(), text) })
}

func (d *driver) types(keys string) {
	d.t.Helper()
	if _, err := d.pty.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

// resize changes the size of the window.
func (d *driver) resize(w, h int) {
	d.t.Helper()
	d.mu.Lock()
	d.screen.Resize(w, h)
	d.mu.Unlock()
	if err := pty.Setsize(d.pty, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}); err != nil {
		d.t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		d.t.Fatal(err)
	}
}

// end waits for the end of the program, and checks that the terminal is as it
// was.
func (d *driver) end() {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(hang):
		d.t.Fatal("the program does not end")
	}
	const mark = "<the end>"
	if _, err := d.tty.WriteString(mark); err != nil {
		d.t.Fatal(err)
	}
	d.sees(mark)
	d.mu.Lock()
	defer d.mu.Unlock()
	raw := d.raw.String()
	if on := modes(raw); len(on) != 0 {
		d.t.Errorf("modes that are left on: %v", on)
	}
	if !strings.Contains(raw, "\x1b[22;2t") || !strings.HasSuffix(raw, "\x1b]2;\x1b\\\x1b[23;2t"+mark) {
		d.t.Errorf("the title is not restored: …%q", raw[max(len(raw)-200, 0):])
	}
	if !strings.Contains(raw, "\x1b[?25h") || strings.LastIndex(raw, "\x1b[?25h") < strings.LastIndex(raw, "\x1b[?25l") {
		d.t.Error("the cursor is hidden")
	}
	if strings.LastIndex(raw, "\x1b]9;4;0") < strings.LastIndex(raw, "\x1b]9;4;3") {
		d.t.Error("progress is left on")
	}
	if after := d.settings(); after != d.before {
		d.t.Errorf("settings of the terminal: %s, want %s", after, d.before)
	}
}

var private = regexp.MustCompile(`\x1b\[\?(\d+)([hl])`)

// modes are the private modes that a stream of bytes leaves on, but for the
// cursor's, which is on in the beginning.
func modes(raw string) []string {
	on := map[string]bool{}
	for _, m := range private.FindAllStringSubmatch(raw, -1) {
		on[m[1]] = m[2] == "h"
	}
	var left []string
	for mode, is := range on {
		if is && mode != "25" {
			left = append(left, mode)
		}
	}
	return left
}

func (d *driver) asks(ttl time.Duration) {
	h := harness{clock: d.clock}
	d.backend.runs = []core.Run{h.run1(core.RunWaiting)}
	d.backend.approvals = []core.Approval{h.approval(ttl)}
}

func TestRun_StartAndQuit(t *testing.T) {
	t.Parallel()
	d := start(t, 80, 24, nil)
	d.sees("1 Runs")
	d.wait("the modes", func() bool { return len(modes(d.raw.String())) >= 5 })
	raw := func() string { d.mu.Lock(); defer d.mu.Unlock(); return d.raw.String() }
	for _, seq := range []string{"\x1b[?1049h", "\x1b[?1002h", "\x1b[?1006h", "\x1b[?2004h", "\x1b[?1004h"} {
		if !strings.Contains(raw(), seq) {
			t.Errorf("%q was not sent", seq)
		}
	}
	if strings.Contains(raw(), "\x1b]11;?") || strings.Contains(raw(), "\x1b[6n") {
		t.Error("the terminal was asked something")
	}
	d.types("\x03")
	d.end()
	if d.err != nil || len(d.left) != 0 {
		t.Errorf("left %v, %v", d.left, d.err)
	}
	// Whole frames only, each between the marks.
	open, shut := strings.Count(raw(), "\x1b[?2026h"), strings.Count(raw(), "\x1b[?2026l")
	if open == 0 || open != shut || strings.Contains(raw(), "\x1b[?2026h\x1b[?2026h") {
		t.Errorf("%d frames begin, %d end", open, shut)
	}
}

func TestRun_ContextEnds(t *testing.T) {
	t.Parallel()
	cause := errors.New("terminated")
	d := start(t, 80, 24, nil)
	d.sees("1 Runs")
	d.stop(cause)
	d.end()
	if !errors.Is(d.err, cause) {
		t.Errorf("error %v", d.err)
	}
}

func TestRun_Panic(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"command", "feed", "view"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			var told bytes.Buffer
			want := "boom"
			d := start(t, 80, 24, func(d *driver) {
				d.options.Stderr = &told
				switch where {
				case "command":
					d.options.Backend = panics{d.backend, true, false}
				case "feed":
					d.options.Backend = panics{d.backend, false, true}
				case "view":
					d.options.Keys, want = nil, "nil pointer" // whoever draws a hint panics
				}
			})
			d.end()
			if core.CodeOf(d.err) != core.CodeInternal || !strings.Contains(d.err.Error(), want) {
				t.Errorf("error %v", d.err)
			}
			if text := told.String(); !strings.HasPrefix(text, "panic: ") || !strings.Contains(text, want) || !strings.Contains(text, "goroutine") {
				t.Errorf("told: %q", text)
			}
		})
	}
}

// panics is a backend that does.
type panics struct {
	*fakeBackend
	pin, list bool
}

func (p panics) NeedsPin(ctx context.Context) (bool, error) {
	if p.pin {
		panic("boom")
	}
	return p.fakeBackend.NeedsPin(ctx)
}

func (p panics) Approvals(ctx context.Context, all bool) ([]core.Approval, error) {
	if p.list {
		panic("boom")
	}
	return p.fakeBackend.Approvals(ctx, all)
}

func TestRun_TerminalCloses(t *testing.T) {
	t.Parallel()
	d := start(t, 80, 24, nil)
	d.sees("1 Runs")
	// ctrl+d at the end of the input is a key, as the terminal is raw: only a
	// terminal that is gone ends it.
	d.types("\x04")
	d.types("?")
	d.pty.Close()
	select {
	case <-d.ended:
	case <-time.After(hang):
		t.Fatal("the program goes on without a terminal")
	}
	if d.err == nil {
		t.Error("no error")
	}
}

// TestRun_ResizeStorm is alone: its signals are for the whole process, and the
// library has a race between one and the return from an editor.
func TestRun_ResizeStorm(t *testing.T) {
	d := start(t, 80, 24, func(d *driver) { d.asks(0) })
	d.sees("checkout-sync")
	sizes := [][2]int{{160, 45}, {100, 30}, {60, 15}, {40, 10}, {38, 8}, {1, 1}, {200, 60}, {80, 24}}
	for range 5 {
		for _, s := range sizes {
			d.resize(s[0], s[1])
		}
	}
	d.resize(160, 45)
	d.wait("a dashboard of the whole window", func() bool {
		lines := strings.Split(strings.TrimRight(d.screen.String(), "\n"), "\n")
		return len(lines) == 45 && strings.Contains(lines[2], "1 Runs") && strings.Contains(lines[2], "DAG")
	})
	d.resize(38, 8)
	d.sees("terminal 38x8")
	d.types("\x03")
	d.end()
}

func TestRun_Decide(t *testing.T) {
	t.Parallel()
	decided := make(chan api.ContinueRequest, 1)
	d := start(t, 80, 24, func(d *driver) {
		d.asks(5 * time.Minute)
		d.backend.onContinue = func(r api.ContinueRequest) (api.Result, error) {
			d.backend.mu.Lock()
			defer d.backend.mu.Unlock()
			a := &d.backend.approvals[0]
			a.State, a.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: r.By, At: d.clock.Now()}
			run := &d.backend.runs[0]
			run.State, run.Epoch = core.RunRunning, run.Epoch+1
			decided <- r
			return api.Result{WorkflowID: r.ID, Status: api.StatusRunning, Decided: a.DecidedBy}, nil
		}
	})
	d.sees("checkout-sync")
	d.types("2")
	d.sees("┏━ 2 Approvals")
	d.clock.move(time.Second)
	d.types("\x1b[200~aaaa\x1b[201~") // pasted: decides nothing, opens nothing
	d.types("a")
	d.sees("Approve tool permission?")
	d.clock.move(time.Second)
	d.types("a")
	select {
	case r := <-decided:
		if !r.Decision.Approve || r.Decision.Checkpoint != askA || r.By.Via != core.ViaTUI {
			t.Errorf("decided %+v", r)
		}
	case <-time.After(hang):
		d.sees("a decision")
	}
	d.sees("approved")
	d.wait("progress", func() bool { return strings.Contains(d.raw.String(), "\x1b]9;4;3") })
	d.types("\x03")
	d.end()
	if len(d.left) != 1 || d.left[0] != runA {
		t.Errorf("left %v, want the run that was taken over", d.left)
	}
}

// TestRun_ApproveLoop opens the bounds for the calls of a line, narrows them with a key, reads
// them to the end and approves.
func TestRun_ApproveLoop(t *testing.T) {
	t.Parallel()
	decided := make(chan api.ContinueRequest, 1)
	d := start(t, 80, 24, func(d *driver) {
		d.asks(5 * time.Minute)
		d.backend.approvals = loopOf(&harness{clock: d.clock})
		d.backend.onContinue = func(r api.ContinueRequest) (api.Result, error) {
			decided <- r
			return api.Result{WorkflowID: r.ID, Status: api.StatusRunning}, nil
		}
	})
	d.sees("checkout-sync")
	d.types("2")
	d.sees("line 4")
	d.clock.move(time.Second)
	d.types("b")
	d.sees("at most 2 calls of std:fetch from line 4:14")
	d.types("-")
	d.sees("at most 1 call of std:fetch from line 4:14")
	d.sees("1 of them asked about all the same")
	d.clock.move(time.Second)
	d.types("a")
	d.sees("not read to its end yet")
	d.types("  ") // two pages on
	d.sees("was shown")
	d.types("a")
	select {
	case r := <-decided:
		if s := r.Decision.Answer.Shape; s == nil || s.Max != 1 || s.Place.Line != 4 || r.Decision.ExpectDigest != "sha256:0" || r.By.Via != core.ViaTUI {
			t.Errorf("decided %+v", r.Decision)
		}
	case <-time.After(hang):
		d.sees("a decision")
	}
	d.types("\x03")
	d.end()
}

func TestRun_Editor(t *testing.T) {
	t.Parallel()
	d := start(t, 80, 24, func(d *driver) {
		d.asks(5 * time.Minute)
		d.options.Environ = vars("TERM=xterm-ghostty VISUAL=./testdata/editor.sh")
	})
	d.sees("checkout-sync")
	d.types("2")
	d.sees("┏━ 2 Approvals")
	d.clock.move(time.Second)
	d.types("e")
	d.sees("the editor has a terminal")
	d.types("\n")
	d.sees("checkout-sync")
	// The mouse is on again.
	d.wait("the mouse", func() bool {
		raw := d.raw.String()
		return strings.LastIndex(raw, "\x1b[?1002h") > strings.LastIndex(raw, "\x1b[?1002l")
	})
	d.types("\x03")
	d.end()
}
