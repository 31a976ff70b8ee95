package plain_test

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/feed"
	"github.com/casys-ai/pml/tui/plain"
)

// TestPlain_Switched: somebody else decides what the question is about. The line
// that was meant for it does nothing to the next approval.
func TestPlain_Switched(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"2", "deny", "approve", "4", "open", "remember run", "scripts", "run-again"} {
		altering(t, nil, func(p *talk, b *altered) {
			p.types("show " + p.of(core.ApproveTool).ID.Short())
			p.other(p.of(core.ApproveTool))
			p.wants(p.after(600*time.Millisecond), "already denied by bob", "about approval")
			p.wants(p.types(line), "the question has changed", "Nothing was done")
			b.nothing(t, line)
			if said := p.types("deny meant now"); !strings.Contains(said, "done: denied") {
				t.Errorf("said again after %q: %s", line, said)
			}
		})
	}
}

// TestPlain_Early: what comes up by itself cannot be decided at once.
func TestPlain_Early(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		p.types("show " + a.ID.Short())
		if _, err := io.WriteString(p.in, "deny\n"); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(p.after(10*time.Millisecond), "about approval") {
		}
		b.done()
		if _, err := io.WriteString(p.in, "deny\n"); err != nil {
			t.Fatal(err)
		}
		p.wants(p.after(10*time.Millisecond), "too early")
		b.nothing(t, "deny")
		p.after(time.Second)
		p.wants(p.types("deny"), "done: denied")
	})
}

// TestPlain_Abort: a run is never ended by one line.
func TestPlain_Abort(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		p.wants(p.types("abort "+a.ID.Short()+" wrong list"), "confirm: type yes to deny approval "+a.ID.Short()+" and end ")
		p.wants(p.types("y"), "not aborted")
		b.nothing(t, "abort")
		p.types("abort " + a.ID.Short() + " wrong list")
		p.wants(p.types("yes"), "done: denied")
		if w, err := p.b.Workflow(t.Context(), a.RunID); err != nil || w.State != core.RunAborted || !strings.Contains(w.Error.Message, "wrong list") {
			t.Errorf("%s %v %v", w.State, w.Error, err)
		}
	})
}

// linked gives a dialogue connections that a test changes.
func linked(o *plain.Options) chan<- feed.Link {
	told := make(chan feed.Link)
	o.Links = func(ctx context.Context, f func(feed.Link)) {
		f(feed.Link{Side: core.SideClient, Up: true})
		f(feed.Link{Side: core.SideServer, Up: true, Name: "demo"})
		for {
			select {
			case l := <-told:
				f(l)
			case <-ctx.Done():
				return
			}
		}
	}
	return told
}

// TestPlain_Lost: while a half is lost nothing of it is decided and nothing is
// queued, whatever the verb and whether the approval is named.
func TestPlain_Lost(t *testing.T) {
	t.Parallel()
	var link chan<- feed.Link
	altering(t, func(_ *altered, o *plain.Options) { link = linked(o) }, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		p.types("show " + p.of(core.ApproveKeys).ID.Short())
		lost := core.Errorf(core.CodeServerUnreachable, "gone")
		link <- feed.Link{Side: core.SideClient, Err: lost}
		link <- feed.Link{Side: core.SideServer, Err: lost}
		p.wants(p.after(time.Second), "this machine does not answer", "the server does not answer")
		id, run := a.ID.Short(), a.RunID.Short()
		for _, line := range []string{
			"deny", "abort", "approve", "4", "deny " + id, "abort " + id, "approve " + id, "more " + id, "remember rule", "remember run",
			"again " + id, "retry " + run, "continue " + run, "abort-run " + run,
		} {
			said := p.types(line)
			if strings.Contains(said, "confirm:") { // of a run: looked at again behind the yes
				said = p.types("yes")
			}
			p.wants(said, "decisions are off, nothing is queued")
			b.nothing(t, line)
		}
		link <- feed.Link{Side: core.SideClient, Up: true}
		link <- feed.Link{Side: core.SideServer, Up: true}
		p.wants(p.after(time.Second), "all is live again")
		p.wants(p.types("deny "+id), "done: denied")
	})
}

// TestPlain_LostMeanwhile: a half that is lost between the question and the yes.
func TestPlain_LostMeanwhile(t *testing.T) {
	t.Parallel()
	var link chan<- feed.Link
	altering(t, func(_ *altered, o *plain.Options) { link = linked(o) }, func(p *talk, b *altered) {
		p.wants(p.types("approve "+p.of(core.ApproveTool).ID.Short()), "confirm: type yes")
		lost := core.Errorf(core.CodeServerUnreachable, "gone")
		link <- feed.Link{Side: core.SideClient, Err: lost}
		link <- feed.Link{Side: core.SideServer, Err: lost}
		p.after(time.Second)
		p.wants(p.types("yes"), "decisions are off", "does not answer")
		b.nothing(t, "yes")
	})
}

// TestPlain_Connecting: a server that has not answered yet is not live; that
// there is none is no loss.
func TestPlain_Connecting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server feed.Link
		off    bool
	}{{feed.Link{Side: core.SideServer, Name: "far", Connecting: true}, true}, {feed.Link{Side: core.SideServer, None: true}, false}} {
		altering(t, func(_ *altered, o *plain.Options) {
			o.Links = func(ctx context.Context, f func(feed.Link)) {
				f(feed.Link{Side: core.SideClient, Up: true})
				f(c.server)
				<-ctx.Done()
			}
		}, func(p *talk, b *altered) {
			for _, side := range []core.Side{core.SideClient, core.SideServer} {
				list, _ := p.b.Approvals(t.Context(), false)
				i := slices.IndexFunc(list, func(a core.Approval) bool { return a.Side == side })
				if i < 0 || side == core.SideServer && !c.off {
					continue
				}
				said := p.types("deny " + list[i].ID.Short())
				if off := strings.Contains(said, "decisions are off"); off != (c.off && side == core.SideServer) {
					t.Errorf("%s with %+v: %s", side, c.server, said)
				}
			}
			if said := p.types("list"); strings.Contains(said, "does not answer") && !c.off {
				t.Errorf("%s", said)
			}
			b.done()
		})
	}
}

// TestPlain_NotRead: before the first lists are here nobody says that there is
// nothing.
func TestPlain_NotRead(t *testing.T) {
	t.Parallel()
	altering(t, func(b *altered, _ *plain.Options) {
		b.page = func(ctx context.Context, _ *api.Page[core.Run]) { <-ctx.Done() }
	}, func(p *talk, b *altered) {
		for _, line := range []string{"list", "runs", "deny", "show", "retry 12345678", "run 12345678"} {
			said := p.types(line)
			p.wants(said, "not read yet")
			if strings.Contains(said, "nothing is waiting") || strings.Contains(said, "no run begins") {
				t.Errorf("%q: %s", line, said)
			}
		}
		b.nothing(t, "all")
	})
}

// TestPlain_Warns: what is missing in the lists, and what the backend wants to
// be known, is said; a list that lacks something says so.
func TestPlain_Warns(t *testing.T) {
	t.Parallel()
	var warnings chan string
	missing := func(b *altered, o *plain.Options) {
		warnings = make(chan string) // of the test's bubble
		o.Warnings = warnings
		b.page = func(_ context.Context, p *api.Page[core.Run]) { p.Warnings = []string{"the key was refused"} }
		b.approvals = func([]core.Approval) []core.Approval { return nil }
	}
	altering(t, missing, func(p *talk, b *altered) {
		p.wants(p.out.take(), "warning: the key was refused")
		warnings <- "mind\x1b[2J this"
		p.wants(p.after(time.Second), `warning: mind\x1b[2J this`)
		p.wants(p.types("list"), "not all could")
		b.change(func(b *altered) { b.page = nil })
		p.wants(p.after(time.Minute), "warning over: the key was refused")
	})
}

// TestPlain_Notices: what a person has to know of the workspace is said once; it
// takes nothing from what is known.
func TestPlain_Notices(t *testing.T) {
	t.Parallel()
	taken := func(b *altered, _ *plain.Options) {
		b.page = func(_ context.Context, p *api.Page[core.Run]) {
			p.Notices = []string{"restrictions\x1b[2J were taken out"}
		}
		b.approvals = func([]core.Approval) []core.Approval { return nil }
	}
	altering(t, taken, func(p *talk, b *altered) {
		p.wants(p.out.take(), `notice: restrictions\x1b[2J were taken out`)
		p.wants(p.types("list"), "nothing is waiting.")
		if said := p.after(time.Minute); strings.Contains(said, "notice") {
			t.Errorf("it is said again: %s", said)
		}
	})
}

// TestPlain_LayerArguments: a layer whose arguments could not be read was not
// read, and cannot be approved.
func TestPlain_LayerArguments(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a := p.of(core.ApproveLayer)
		b.change(func(b *altered) {
			b.workflow = func(*core.Workflow) error { return core.Errorf(core.CodeServerUnreachable, "gone") }
		})
		for _, line := range []string{"show " + a.ID.Short(), "approve " + a.ID.Short(), "3"} {
			said := p.types(line)
			p.wants(said, "this is not all")
			if strings.Contains(said, "confirm:") || strings.Contains(said, "end of approval") {
				t.Errorf("%q: %s", line, said)
			}
		}
		b.nothing(t, "approve")
		b.change(func(b *altered) { b.workflow = nil })
		p.wants(p.types("approve"), "end of approval", "confirm:")
	})
}

// TestPlain_Claims: of the runs that were decided here, those that this process
// has taken over are named at the end, and no others.
func TestPlain_Claims(t *testing.T) {
	t.Parallel()
	self := func() string { return "ours" }
	for _, c := range []struct {
		before, after string
		self          func() string
		claimed       bool
	}{
		{"dead", "ours", self, true}, {"dead", "another", self, false}, {"theirs", "theirs", self, false}, {"ours", "ours", self, true},
		{"dead", "ours", nil, true}, {"theirs", "theirs", nil, false},
	} {
		altering(t, func(_ *altered, o *plain.Options) { o.Runner = c.self }, func(p *talk, b *altered) {
			a := p.of(core.ApproveTool)
			runner := func(name string) {
				b.change(func(b *altered) {
					b.workflow = func(w *core.Workflow) error {
						w.Runner, w.State, w.Side = name, core.RunRunning, core.SideClient
						return nil
					}
				})
			}
			runner(c.before)
			p.types("deny " + a.ID.Short())
			runner(c.after)
			p.after(time.Second)
			p.types("quit")
			p.end <- <-p.end
			if claimed := slices.Contains(p.left, a.RunID); claimed != c.claimed || len(p.left) > 1 {
				t.Errorf("%s, then %s, claimed %v: %v", c.before, c.after, c.claimed, p.left)
			}
		})
	}
}

// TestPlain_Rule: a rule is shown before it is written, and written before the
// call is approved.
func TestPlain_Rule(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		said := p.types("remember " + a.ID.Short() + " rule")
		p.wants(said, "end of approval", "rule: permissions.allow gets", a.Tool, ".pml.json", `+    "allow"`, "confirm: type yes to write this rule and approve")
		p.wants(p.types("no"), "the rule was not written")
		b.nothing(t, "no")
		p.types("remember rule")
		p.wants(p.types("yes"), "the rule is written", "done: approved")
		if did := b.done(); !slices.Equal(did, []string{"write", "continue"}) || b.remember != core.RememberRule || len(b.rules) != 1 {
			t.Errorf("%v %s %v", did, b.remember, b.rules)
		}
	})
}

// TestPlain_Reasons: the first word of a reason is an approval's id only if it
// is as long as the ids that are shown.
func TestPlain_Reasons(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a, other := p.of(core.ApproveTool), p.of(core.ApproveKeys)
		p.types("show " + a.ID.Short())
		p.wants(p.types("deny 01234567 letter"), "no approval begins with 01234567")
		p.wants(p.types("approve of it"), "no approval begins with of")
		b.nothing(t, "deny")
		p.wants(p.types("deny "+string(other.ID[:4])+" letter"), "done: denied")
		if p.state(a.ID) != core.ApprovalDenied || p.state(other.ID) != core.ApprovalOpen {
			t.Errorf("%s %s", p.state(a.ID), p.state(other.ID))
		}
	})
}

// TestPlain_LongLine: a line that is too long is refused, and the dialogue goes on.
func TestPlain_LongLine(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		p.wants(p.types("deny "+strings.Repeat("x", 100<<10)), "error: the line is longer than 64 KiB")
		b.nothing(t, "deny")
		p.wants(p.types("help"), "approve once")
	})
}

// TestPlain_OpensWeb: only an address of the web is opened.
func TestPlain_OpensWeb(t *testing.T) {
	t.Parallel()
	for url, opens := range map[string]bool{"https://a.example/x": true, "file:///bin/sh": false, "javascript:1": false, "https:x": false, "smb://a.example/x": false} {
		var opened []string
		altering(t, func(b *altered, o *plain.Options) {
			o.OpenURL = func(_ context.Context, url string) error { opened = append(opened, url); return nil }
			b.approvals = func(list []core.Approval) []core.Approval {
				for i := range list {
					if list[i].Type == core.ApproveOAuth {
						list[i].Context, _ = json.Marshal(map[string]string{"auth_url": url})
					}
				}
				return list
			}
		}, func(p *talk, _ *altered) {
			said := p.types("open " + p.of(core.ApproveOAuth).ID.Short())
			if got := len(opened) == 1; got != opens || strings.Contains(said, "only an address of the web") == opens {
				t.Errorf("%s: opened %v: %s", url, opened, said)
			}
		})
	}
}

// TestPlain_Bell: it rings for what comes, not for what waits at the start, and
// not where it is off.
func TestPlain_Bell(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		altering(t, func(b *altered, o *plain.Options) {
			o.Bell = on
			b.approvals = func(list []core.Approval) []core.Approval {
				return slices.DeleteFunc(list, func(a core.Approval) bool { return a.Type == core.ApproveTool })
			}
		}, func(p *talk, b *altered) {
			if said := p.out.take(); strings.Contains(said, "\a") || !strings.Contains(said, "approval 1 of") {
				t.Errorf("%q", said)
			}
			b.change(func(b *altered) { b.approvals = nil })
			said := p.after(20 * time.Second)
			p.wants(said, "tool permission, risk")
			if strings.Contains(said, "\a") != on {
				t.Errorf("bell %v: %q", on, said)
			}
		})
	}
}

// TestPlain_Gone: when the run of the current approval is removed, the line
// names the approval.
func TestPlain_Gone(t *testing.T) {
	t.Parallel()
	altering(t, nil, func(p *talk, b *altered) {
		a := p.of(core.ApproveTool)
		p.types("show " + a.ID.Short())
		b.change(func(b *altered) {
			b.page = func(_ context.Context, p *api.Page[core.Run]) {
				p.Items = slices.DeleteFunc(p.Items, func(r core.Run) bool { return r.ID == a.RunID })
			}
			b.workflow = func(w *core.Workflow) error {
				if w.ID == a.RunID {
					return core.Errorf(core.CodeNotFound, "no run")
				}
				return nil
			}
			b.approvals = func(list []core.Approval) []core.Approval {
				return slices.DeleteFunc(list, func(x core.Approval) bool { return x.RunID == a.RunID })
			}
		})
		said := p.types("retry " + a.RunID.Short()) // has it read again
		p.wants(said+p.after(time.Minute), "approval "+a.ID.Short()+": it is gone")
	})
}

// TestPlain_RememberSession: a session is offered only where the process that asked lives on behind the run.
func TestPlain_RememberSession(t *testing.T) {
	t.Parallel()
	for via, offered := range map[core.Via]bool{core.ViaCLI: false, core.ViaMCP: true} {
		asked := func(b *altered, _ *plain.Options) {
			b.approvals = func(list []core.Approval) []core.Approval {
				for i := range list {
					list[i].RequestedBy.Via = via
				}
				return list
			}
		}
		altering(t, asked, func(p *talk, _ *altered) {
			a := p.of(core.ApproveTool)
			p.types("show " + p.of(core.ApproveKeys).ID.Short())
			said := p.types("show " + a.ID.Short())
			if !strings.Contains(said, "remember run") || strings.Contains(said, "remember session") != offered {
				t.Errorf("%s: %s", via, said)
			}
		})
	}
}
