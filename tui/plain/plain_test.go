package plain_test

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/demo"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/plain"
)

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// printed is what was said, to be read while more is said.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

// take returns what was said since it was last asked.
func (p *printed) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.buf.String()
	p.buf.Reset()
	return s
}

// talk is a person at the dialogue.
type talk struct {
	t   *testing.T
	b   *demo.Backend
	in  *io.PipeWriter
	out *printed
	end chan error
	// left are the runs that were said to go on, once the dialogue has ended.
	left []core.ID
}

// dialogue runs f with a dialogue about the demo, in a bubble.
func dialogue(t *testing.T, change func(*plain.Options), f func(*talk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, w := io.Pipe()
		p := &talk{t: t, b: demo.New(clock{}), in: w, out: &printed{}, end: make(chan error, 1)}
		o := plain.Options{Backend: p.b, Links: p.b.Links, Clock: clock{}, In: r, Out: p.out, User: "ann", Because: "via --plain"}
		if change != nil {
			change(&o)
		}
		go p.b.Play(ctx)
		go func() {
			var err error
			p.left, err = plain.Run(ctx, o)
			p.end <- err
		}()
		defer func() {
			cancel()
			_ = r.Close()
			<-p.end
		}()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		f(p)
	})
}

// types types a line and returns what is said to it within half a second.
func (p *talk) types(line string) string {
	p.t.Helper()
	p.out.take()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
	return p.out.take()
}

func (p *talk) wants(text string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// of returns the open approval of a type.
func (p *talk) of(typ core.ApprovalType) core.Approval {
	p.t.Helper()
	list, _ := p.b.Approvals(p.t.Context(), false)
	i := slices.IndexFunc(list, func(a core.Approval) bool { return a.Type == typ })
	if i < 0 {
		p.t.Fatalf("nothing asks for %s", typ)
	}
	return list[i]
}

func (p *talk) state(id core.ID) core.ApprovalState {
	list, _ := p.b.Approvals(p.t.Context(), true)
	return list[slices.IndexFunc(list, func(a core.Approval) bool { return a.ID == id })].State
}

// TestPlain_Greets: the mode says that it is on and why, and announces all that
// waits; no byte acts on the terminal.
func TestPlain_Greets(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		said := p.out.take()
		p.wants(said, "pml: plain mode on (via --plain). Type help.\n", "waiting for a decision.", "approval 1 of ", "integrity, risk high", "choose 1 deny, 2 abort run, 3 approve once")
		second := regexp.MustCompile(`approval 2 of [^\n]*Id (\w{8})\.`).FindStringSubmatch(said)
		if shown := p.types("show 2"); second == nil || !strings.Contains(shown, second[1]) {
			p.t.Errorf("show 2 shows %s, not %q", shown, second)
		}
		if regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f]`).MatchString(said) {
			p.t.Errorf("control characters in %q", said)
		}
		p.wants(p.types("help"), "approve once", "quit")
		said = p.types("frobnicate \x1b[2J")
		p.wants(said, "not understood. Type help.")
		if strings.Contains(said, "frob") {
			p.t.Errorf("what was typed is said: %s", said)
		}
	})
}

// TestPlain_HighRisk: what is of high risk is read out whole before it can be
// approved, and takes the typed characters.
func TestPlain_HighRisk(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		a := p.of(core.ApproveIntegrity)
		p.types("show " + a.ID.Short())
		said := p.types("approve " + a.ID.Short())
		want := regexp.MustCompile(`confirm: type ([0-9a-f]{4}) to approve`).FindStringSubmatch(said)
		if want == nil {
			p.t.Fatalf("no confirmation: %s", said)
		}
		p.wants(p.types("yes"), "not approved.")
		if p.state(a.ID) != core.ApprovalOpen {
			p.t.Fatal("approved by yes")
		}
		said = p.types("3")
		p.wants(said, "confirm: type "+want[1])
		p.wants(p.types(want[1]), "done: approved by you")
		if p.state(a.ID) != core.ApprovalApproved {
			p.t.Error("not approved")
		}
	})
}

// TestPlain_ShowsFirst: approving something that was not read reads it first.
func TestPlain_ShowsFirst(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		a := p.of(core.ApproveTool)
		said := p.types("approve " + a.ID.Short())
		p.wants(said, "tag_name", "v2.1.0", "end of approval "+a.ID.Short(), "confirm: type yes")
		p.wants(p.types("y"), "not approved.")
		p.types("approve")
		p.wants(p.types("yes"), "done: approved by you")
	})
}

// TestPlain_Denies: a reason goes with it, and one who is late learns who won.
func TestPlain_Denies(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		a := p.of(core.ApproveTool)
		p.wants(p.types("deny "+a.ID.Short()+" not today"), "done: denied by you")
		list, _ := p.b.Approvals(p.t.Context(), true)
		i := slices.IndexFunc(list, func(x core.Approval) bool { return x.ID == a.ID })
		if d := list[i].DecidedBy; d == nil || d.Reason != "not today" || d.Who != "ann" || d.Via != core.ViaTUI {
			p.t.Errorf("%+v", list[i].DecidedBy)
		}
		other := p.of(core.ApproveKeys)
		p.types("show " + other.ID.Short())
		_, err := p.b.Continue(p.t.Context(), api.ContinueRequest{ID: other.RunID, By: core.Actor{Who: "bob", Via: core.ViaCLI}, Decision: &api.Decision{Approve: true, Checkpoint: other.ID}})
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		p.wants(p.out.take(), "already approved by bob via cli")
	})
}

// TestPlain_InDoubt: a call in doubt needs to be told how it goes on.
func TestPlain_InDoubt(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		a := p.of(core.ApproveInDoubt)
		if said := p.types("show " + a.ID.Short()); strings.Contains(said, "--approve") || !strings.Contains(said, "--answer run-again") || !strings.Contains(said, "--answer skip") {
			p.t.Errorf("a plain yes would be refused: %s", said)
		}
		p.wants(p.types("approve"), "not possible: first say how")
		p.wants(p.types("skip-result {"), "must be JSON")
		said := p.types(`skip-result {"charged": false}`)
		code := regexp.MustCompile(`type (\w{4}) to approve`).FindStringSubmatch(said)
		if code == nil {
			p.t.Fatalf("%s", said)
		}
		p.wants(p.types(code[1]), "done: approved")
		list, _ := p.b.Approvals(p.t.Context(), true)
		i := slices.IndexFunc(list, func(x core.Approval) bool { return x.ID == a.ID })
		if got := list[i].Answer; got == nil || got.InDoubt != core.SkipResult || string(got.Result) != `{"charged": false}` {
			p.t.Errorf("%+v", got)
		}
	})
}

// TestPlain_Speaks: time left is said at a few moments, expiry at once, and what
// has expired can be asked again.
func TestPlain_Speaks(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		a := p.of(core.ApproveTool)
		p.types("show " + a.ID.Short())
		time.Sleep(time.Until(*a.ExpiresAt) - 59*time.Second)
		synctest.Wait()
		p.wants(p.out.take(), "approval "+a.ID.Short()+", tool permission: ")
		time.Sleep(time.Minute)
		synctest.Wait()
		said := p.out.take()
		p.wants(said, "20 seconds left", "approval "+a.ID.Short()+": expired")
		if n := strings.Count(said, a.ID.Short()+", tool permission: "); n != 1 {
			p.t.Errorf("mentioned %d times in the last minute: %s", n, said)
		}
		p.wants(p.types("show "+a.ID.Short()), a.ID.Short())
		p.wants(p.types("3"), "type yes to approve")
		p.wants(p.types("yes"), "done: approved")
	})
}

// TestPlain_Workflows: runs can be looked at, retried and ended.
func TestPlain_Workflows(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		page, _ := p.b.Workflows(p.t.Context(), []core.RunState{core.RunFailed}, 1, "")
		failed := page.Items[0]
		p.wants(p.types("runs"), "release-notes, waiting")
		p.wants(p.types("run "+failed.ID.Short()), "ocr: exit 1", "error")
		p.wants(p.types("retry "+failed.ID.Short()), "done: retry")
		page, _ = p.b.Workflows(p.t.Context(), []core.RunState{core.RunRunning}, 1, "")
		id := page.Items[0].ID
		p.types("abort-run " + id.Short())
		p.wants(p.types("no"), "not aborted")
		p.types("abort-run " + id.Short())
		p.wants(p.types("yes"), "done: abort-run")
		p.wants(p.types("run ffffffff"), "no run begins with")
		p.wants(p.types("list"), "waiting 1 of ", "resolved: ")
	})
}

// TestPlain_Pin: an approval takes the PIN where there is one, a denial none.
// What is typed is hidden while it is, and nobody else reads it.
func TestPlain_Pin(t *testing.T) {
	t.Parallel()
	var echo []bool
	var b *pinned
	dialogue(t, func(o *plain.Options) {
		b = &pinned{Backend: o.Backend}
		o.Backend = b
		o.Echo = func(on bool) error { echo = append(echo, on); return nil }
	}, func(p *talk) {
		p.types("approve " + p.of(core.ApproveTool).ID.Short())
		p.wants(p.types("yes"), "type the PIN")
		if !slices.Equal(echo, []bool{false}) {
			p.t.Fatalf("echo: %v", echo)
		}
		said := p.types("Zq8841 ")
		p.wants(said, "done: approved")
		if strings.Contains(said, "Zq8841") || b.pin != "Zq8841 " || !slices.Equal(echo, []bool{false, true}) {
			p.t.Errorf("echo %v, PIN %q: %s", echo, b.pin, said)
		}
		p.wants(p.types("deny "+p.of(core.ApproveKeys).ID.Short()), "done: denied")
		if len(echo) != 2 {
			p.t.Error("a denial took a PIN")
		}
		a := p.of(core.ApproveDependency)
		code := regexp.MustCompile(`type (\w+) to`).FindStringSubmatch(p.types("approve " + a.ID.Short()))
		p.wants(p.types(code[1]), "type the PIN")
		p.wants(p.types(""), "no PIN was typed")
		if p.state(a.ID) != core.ApprovalOpen || len(echo) != 4 {
			p.t.Errorf("%s, echo %v", p.state(a.ID), echo)
		}
	})
}

// pinned is a backend that wants a PIN, and what it was given.
type pinned struct {
	feed.Backend
	pin string
}

func (b *pinned) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	if req.Decision.Approve {
		b.pin = req.Decision.Pin
	}
	return b.Backend.Continue(ctx, req)
}

func (*pinned) NeedsPin(context.Context) (bool, error) { return true, nil }

// TestPlain_Leaves: at quit and at the end of the input.
func TestPlain_Leaves(t *testing.T) {
	t.Parallel()
	dialogue(t, nil, func(p *talk) {
		p.types("quit")
		if err := <-p.end; err != nil {
			p.t.Error(err)
		}
		p.end <- nil
	})
	dialogue(t, nil, func(p *talk) {
		_ = p.in.Close()
		if err := <-p.end; err != nil {
			p.t.Error(err)
		}
		p.end <- nil
	})
}
