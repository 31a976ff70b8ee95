package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/osc"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/screen"
	"github.com/casys-ai/pml/tui/state"
)

func TestModel_Copy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.sent = nil
	h.want(screen.Copy{What: "the id", Text: "abc"})
	if diff := cmp.Diff([]string{"\x1b]52;c;YWJj\x1b\\"}, h.sent[:1]); diff != "" {
		t.Error(diff)
	}
	h.shows("copied the id")
	h.want(screen.Copy{What: "the result", Text: strings.Repeat("a", osc.MaxClipboard+1)})
	h.shows("cannot copy the result: it is too long")
}

func TestModel_OpenURL(t *testing.T) {
	t.Parallel()
	var opened []string
	var fails error
	h := newHarness(t, func(o *Options) {
		o.OpenURL = func(_ context.Context, url string) error { opened = append(opened, url); return fails }
	})
	for _, bad := range []string{"file:///etc/passwd", "javascript:alert(1)", "x", "https://", "https://a b\x7f"} {
		h.want(screen.OpenURL{URL: bad})
		h.shows("only an address of the web can be opened")
	}
	h.want(screen.OpenURL{URL: "https://linear.app/oauth?x=1"})
	h.shows("opened in the browser: linear.app")
	if diff := cmp.Diff([]string{"https://linear.app/oauth?x=1"}, opened); diff != "" {
		t.Error(diff)
	}
	fails = errors.New("no display")
	h.want(screen.OpenURL{URL: "https://linear.app"})
	h.shows("cannot open the browser: no display")
	without := newHarness(t, nil)
	without.want(screen.OpenURL{URL: "https://linear.app"})
	without.shows("there is no browser here")
}

func TestModel_Command(t *testing.T) {
	t.Parallel()
	var got []string
	h := newHarness(t, func(o *Options) {
		o.Command = func(_ context.Context, args []string, out io.Writer) int {
			got = args
			fmt.Fprint(out, "three workflows")
			return 3
		}
	})
	h.want(screen.Command{Line: `workflows ls --filter 'a b'`})
	if diff := cmp.Diff([]string{"workflows", "ls", "--filter", "a b"}, got); diff != "" {
		t.Error(diff)
	}
	if h.feed.refreshed != 1 {
		t.Error("nothing was read again after a command")
	}
	h.want(screen.Command{Line: `workflows 'ls`})
	h.shows("nothing was run: a quote is not closed")
}

func TestSplitLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want []string
		bad  bool
	}{
		{"", nil, false},
		{"  a  b\t", []string{"a", "b"}, false},
		{`a 'b "c' "d 'e"`, []string{"a", `b "c`, "d 'e"}, false},
		{`a\ b '\' "\""`, []string{"a b", `\`, `"`}, false},
		{`''`, []string{""}, false},
		{`x'y'z`, []string{"xyz"}, false},
		{`$HOME *`, []string{"$HOME", "*"}, false},
		{`a "b`, nil, true},
		{`a \`, nil, true},
	}
	for _, tt := range tests {
		got, err := splitLine(tt.line)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != tt.bad {
			t.Errorf("%q: %q, %v", tt.line, got, err)
		}
		if again, err := splitLine(decide.Shell(got)); err != nil || cmp.Diff(got, again) != "" {
			t.Errorf("%q: %q as a line is %q, %v", tt.line, got, again, err)
		}
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	b := &bounded{}
	line := strings.Repeat("a", 1000)
	for range 1000 {
		if n, err := b.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	text := b.text()
	if len(b.kept) != maxOutput || !strings.HasSuffix(text, fmt.Sprintf("… (%d more bytes)", 1000*1000-maxOutput)) {
		t.Errorf("%d bytes kept, ends in %q", len(b.kept), text[len(text)-40:])
	}
}

func TestModel_LoadAudit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	add := func(n int) {
		for range n {
			h.backend.audit = append(h.backend.audit, core.AuditRow{Seq: int64(len(h.backend.audit) + 1)})
		}
	}
	add(2500)
	h.want(screen.LoadAudit{})
	check := func(first, last int64) {
		t.Helper()
		rows := h.m.state.Audit()
		if len(rows) != maxAudit || rows[0].Seq != first || rows[len(rows)-1].Seq != last {
			t.Errorf("%d rows, %d to %d", len(rows), rows[0].Seq, rows[len(rows)-1].Seq)
		}
	}
	check(501, 2500)
	add(3)
	h.want(screen.LoadAudit{})
	check(504, 2503)
	h.backend.err = core.Errorf(core.CodeStoreBusy, "busy")
	h.want(screen.LoadAudit{})
	h.shows("cannot read the audit log: busy")
	check(504, 2503)
}

// TestModel_LoadAuditOfBoth: rows of both logs stand in the order of their times,
// also those of a server that was away when later ones were read, and none twice.
func TestModel_LoadAuditOfBoth(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	add := func(side core.Side, seq, second int64) {
		h.backend.audit = append(h.backend.audit, core.AuditRow{Side: side, Seq: seq, At: time.Unix(second, 0)})
	}
	want := func(seconds ...int64) {
		t.Helper()
		h.want(screen.LoadAudit{})
		var got []int64
		for _, r := range h.m.state.Audit() {
			got = append(got, r.At.Unix())
		}
		if !slices.Equal(got, seconds) {
			t.Errorf("%v, want %v", got, seconds)
		}
	}
	add(core.SideClient, 1, 10)
	add(core.SideClient, 2, 30)
	want(10, 30)
	add(core.SideServer, 1, 20)
	want(10, 20, 30)
	add(core.SideClient, 3, 40)
	want(10, 20, 30, 40)
	for i := range int64(maxAudit) { // those of the server are too old to be kept
		add(core.SideClient, 4+i, 50+i)
	}
	h.want(screen.LoadAudit{})
	h.want(screen.LoadAudit{})
	if rows := h.m.state.Audit(); len(rows) != maxAudit || rows[0].Seq != 4 || rows[0].Side != core.SideClient {
		t.Errorf("%d rows, %+v", len(rows), rows[0])
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		vars string
		want paint.Profile
	}{
		{"", paint.Dumb},
		{"OS=Windows_NT", paint.Ansi256},
		{"TERM=dumb", paint.Dumb},
		{"TERM=dumb COLORTERM=truecolor", paint.Dumb},
		{"TERM=dumb CLICOLOR_FORCE=1", paint.Ansi16},
		{"TERM=dumb CLICOLOR_FORCE=1 NO_COLOR=1", paint.Dumb},
		{"TERM=xterm", paint.Ansi16},
		{"TERM=linux", paint.Ansi16},
		{"TERM=screen", paint.Ansi16},
		{"TERM=vt100", paint.NoColor},
		{"TERM=vt100 CLICOLOR_FORCE=1", paint.Ansi16},
		{"TERM=xterm-mono", paint.NoColor},
		{"TERM=xterm-256color", paint.Ansi256},
		{"TERM=tmux-256color", paint.Ansi256},
		{"TERM=xterm-direct", paint.TrueColor},
		{"TERM=xterm-kitty", paint.TrueColor},
		{"TERM=xterm-256color COLORTERM=truecolor", paint.TrueColor},
		{"TERM=xterm-256color COLORTERM=24bit", paint.TrueColor},
		{"TERM=screen-256color COLORTERM=truecolor", paint.Ansi256},
		{"TERM=screen-256color COLORTERM=truecolor TERM_PROGRAM=tmux", paint.TrueColor},
		{"TERM=xterm-256color NO_COLOR=1", paint.NoColor},
		{"TERM=xterm-256color NO_COLOR= COLORTERM=truecolor", paint.TrueColor},
		{"TERM=xterm-256color NO_COLOR=1 CLICOLOR_FORCE=1", paint.NoColor},
		{"TERM=xterm-256color CLICOLOR=0", paint.NoColor},
		{"TERM=xterm-256color CLICOLOR=1", paint.Ansi256},
		{"TERM=xterm-256color CLICOLOR=0 CLICOLOR_FORCE=1", paint.Ansi256},
		{"TERM=xterm-256color CLICOLOR=0 CLICOLOR_FORCE=0", paint.NoColor},
	}
	for _, tt := range tests {
		if got := Profile(vars(tt.vars)); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.vars, got, tt.want)
		}
	}
}

func TestUTF8(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "LANG=C": false, "LANG=en_US.UTF-8": true, "LANG=de_DE.utf8": true, "LANG=en_US.UTF-8 LC_ALL=C": false,
		"LANG=C LC_CTYPE=C.UTF-8": true, "LANG=en_US.ISO-8859-1": false, "LANG=en_US.UTF-8 LC_ALL=": true, "OS=Windows_NT": true,
	} {
		if got := UTF8(vars(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// vars is an environment out of NAME=value words.
func vars(text string) func(string) (string, bool) {
	m := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		m[name] = value
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func TestModel_ReadsAgainAfterRefresh(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.learn(func(s *state.State) { s.SetLoaded() })
	h.want(screen.Refresh{})
	if h.feed.refreshed != 1 {
		t.Errorf("refreshed %d times", h.feed.refreshed)
	}
}

// TestModel_AuditGrew: once somebody has looked at the audit log, it is read again behind all that
// writes to it: what is done here, and what an event or the halts tell.
func TestModel_AuditGrew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	rows := func(want int, after string) {
		t.Helper()
		if n := len(h.m.state.Audit()); n != want {
			t.Errorf("%d rows after %s, want %d", n, after, want)
		}
		h.backend.audit = append(h.backend.audit, core.AuditRow{Seq: int64(len(h.backend.audit) + 1)})
	}
	rows(0, "the start")
	h.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("6")})
	rows(1, "opening the panel")
	h.want(screen.Abort{Run: runA})
	rows(2, "an abort")
	h.want(screen.Halt{})
	rows(3, "a halt")
	h.learn(func(s *state.State) {
		s.AddEvents(core.Event{Seq: 1, Side: core.SideClient, At: began, Type: core.EventWorkflowAbort, RunID: runA})
	})
	rows(4, "the event of an abort")
	h.learn(func(s *state.State) { s.SetHalts([]core.Halt{{Side: core.SideServer, At: began}}) })
	rows(5, "a halt of the server")
	h.want(screen.Decide{Approvals: []core.Approval{h.approval(0)}})
	rows(6, "a no")
}

// TestModel_Together: what was done with several runs at once is said once, of all of them.
func TestModel_Together(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	runB := core.ID("b4ecb76e-0000-4000-8000-000000000002")
	h.want(screen.Abort{Run: runA}, screen.Abort{Run: runB})
	h.shows("2 aborted")
	h.want(screen.Retry{Run: runA}, screen.Continue{Run: runB})
	h.shows("1 tried again, 1 continued")
	h.want(screen.Renew{ID: askA}, screen.Renew{ID: askA})
	h.shows("2 asked again")
	h.backend.err = core.Errorf(core.CodeStoreBusy, "busy")
	h.want(screen.Abort{Run: runA}, screen.Abort{Run: runB})
	h.shows("none of 2. 7f3a91c2: busy")
}
