package runs

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
)

// shapeFlags are those of a yes to the calls of a loop.
type shapeFlags struct {
	on               bool
	max              int
	maxSet           bool // it was given: 0 is not what nobody has said
	until            string
	fix, free, match []string
}

func (s *shapeFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "shape", false, "approve the calls that the same place of the script makes, within the bounds that are shown")
	f.IntVar(&s.max, "max", 0, "with --shape: how many calls at most, this one included (default: those that wait, at least 2)")
	f.StringVar(&s.until, "until", "", "with --shape: until when, a while (10m) or a time (default: as long as the run lasts)")
	f.StringArrayVar(&s.fix, "fix", nil, "with --shape: NAME=VALUE, an argument has this value; may be repeated")
	f.StringArrayVar(&s.free, "free", nil, "with --shape: NAME, an argument may have any value of its type; may be repeated")
	f.StringArrayVar(&s.match, "match", nil, "with --shape: NAME=PATTERN, an argument is a text that matches, * stands for any characters; may be repeated")
}

// check finds flags that do not go together, all of them.
func (s shapeFlags) check(o continueOptions) error {
	var wrong []string
	add := func(is bool, what string) {
		if is {
			wrong = append(wrong, what)
		}
	}
	if !s.on {
		add(s.maxSet || s.until != "" || len(s.fix)+len(s.free)+len(s.match) > 0, "--max, --until, --fix, --free and --match go with --shape")
	} else {
		add(!o.approve, "--shape goes with an approval")
		add(o.all || o.allOfType != "", "--shape is about the calls of one place: it does not go with --all or --all-of-type")
		add(o.edits(), "--shape approves the calls as they are: it does not go with --edit or --arguments")
		add(o.extras.wants() != "" || o.answer != "", "--shape is for this run: it does not go with --remember, --allow-scripts or --answer")
		add(s.maxSet && (s.max < 1 || s.max > approval.MaxShapeCalls), fmt.Sprintf("--max is from 1 to %d", approval.MaxShapeCalls))
		for _, list := range [][]string{s.fix, s.match} {
			for _, one := range list {
				add(!strings.Contains(one, "="), fmt.Sprintf("%q is not NAME=VALUE", core.Visible(one, 80, false)))
			}
		}
	}
	if len(wrong) > 0 {
		return app.Usagef("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// lines are the changes of the bounds that the flags ask for.
func (s shapeFlags) lines() (out []string) {
	if s.max > 0 {
		out = append(out, fmt.Sprintf("max %d", s.max))
	}
	if s.until != "" {
		out = append(out, "until "+s.until)
	}
	for _, name := range s.free {
		out = append(out, fmt.Sprintf("%q any", name))
	}
	for _, one := range s.fix {
		name, value, _ := strings.Cut(one, "=")
		out = append(out, fmt.Sprintf("%q is %s", name, value))
	}
	for _, one := range s.match {
		name, pattern, _ := strings.Cut(one, "=")
		out = append(out, fmt.Sprintf("%q matches %q", name, pattern))
	}
	return out
}

// approveLoop shows the bounds of a yes to the calls of a loop, with those that are known,
// and asks. The decision is bound to the question, and has the bounds that were shown.
func approveLoop(ctx context.Context, a *app.App, b app.Backend, about []core.Approval, d *api.Decision, o continueOptions) ([]*api.Decision, error) {
	if len(about) == 0 {
		if d.Checkpoint != "" {
			return []*api.Decision{d}, nil // it is decided, and the backend says by whom
		}
		return nil, core.Errorf(core.CodeNotWaiting, "no call waits here; nothing was decided").WithNext("pml", "approvals", "ls")
	}
	p := about[0]
	s, loop, err := shapeOf(ctx, a, b, p, o.shape)
	if err != nil {
		return nil, err
	}
	d = bound(*d, p)
	if err := showAll(a, about[:1], 1); err != nil {
		return nil, err
	}
	if err := showShape(a, s, loop); err != nil {
		return nil, err
	}
	if o.asks(a, about[:1], d) {
		if !o.shape.maxSet {
			sayMore(a, loop, s, a.WithFlags)
		}
		if s, err = agree(ctx, a, p, s, loop); err != nil {
			return nil, err
		}
		d.Presence = core.PresenceTerminal
	}
	d.Answer = &core.Answer{Shape: &s}
	if d.Pin, err = a.PinFor(ctx, b, o.extras.pin); err != nil {
		return nil, core.AsError(err).WithRun(p.RunID)
	}
	return []*api.Decision{d}, nil
}

// shapeOf is what is proposed for the loop of an approval, as the flags narrow it.
func shapeOf(ctx context.Context, a *app.App, b app.Backend, p core.Approval, f shapeFlags) (core.Shape, []core.Approval, error) {
	w, err := b.Workflow(ctx, p.RunID)
	if err != nil {
		return core.Shape{}, nil, err
	}
	loop := approval.Loop(p, w.Approvals, a.Now())
	s, ok := approval.Propose(loop)
	if !ok {
		return s, nil, core.Errorf(core.CodeInvalidArguments, "%s is not about a call of a tool that a script makes, or is asked about each time: it is approved by itself; nothing was decided", p.ID.Short()).
			WithRun(p.RunID).WithNext("pml", "approve", p.ID.Short())
	}
	s, wrong := approval.EditShape(s, loop, f.lines(), a.Now())
	if len(wrong) > 0 {
		return s, nil, core.Errorf(core.CodeInvalidArguments, "%s; nothing was decided", strings.Join(wrong, "; ")).WithRun(p.RunID)
	}
	return s, loop, nil
}

// sayMore says for how many calls of a loop the bounds are that are proposed, and how to approve
// more, with the command.
func sayMore(a *app.App, loop []core.Approval, s core.Shape, with func(...string) []string) {
	n := min(max(20, 2*s.Max), approval.MaxShapeCalls)
	how := "type a number, or use"
	if approval.Confirmation(loop[0], false) != "" {
		how = "use"
	}
	many := layout.Plural(s.Max, "call")
	if known := len(loop); known < s.Max {
		many += fmt.Sprintf(", the %d above and %d more", known, s.Max-known)
	}
	a.Say("the bounds are for %s; for more calls of this loop %s:", many, how)
	a.Say("  %s", a.PaintErr(layout.Ident, layout.ShellJoin(with("--max", strconv.Itoa(n)))))
}

// askLoop shows the bounds of a yes to the calls of the loop of an approval that is on the
// screen, and asks.
func askLoop(ctx context.Context, a *app.App, b app.Backend, p core.Approval, pin bool) (*api.Decision, error) {
	s, loop, err := shapeOf(ctx, a, b, p, shapeFlags{})
	if err != nil {
		return nil, err
	}
	if err := showShape(a, s, loop); err != nil {
		return nil, err
	}
	sayMore(a, loop, s, func(more ...string) []string {
		return append([]string{"pml", "approve", p.ID.Short(), "--shape"}, more...)
	})
	if s, err = agree(ctx, a, p, s, loop); err != nil {
		return nil, err
	}
	d := &api.Decision{Approve: true, Checkpoint: p.ID, ExpectDigest: p.Digest, Answer: &core.Answer{Shape: &s}, Presence: core.PresenceTerminal}
	if d.Pin, err = a.PinFor(ctx, b, pin); err != nil {
		return nil, core.AsError(err).WithRun(p.RunID)
	}
	return d, nil
}

// agree asks about bounds until there is an answer, and returns those that were agreed to: a
// number at the prompt is how many calls they are for, and they are shown again.
func agree(ctx context.Context, a *app.App, p core.Approval, s core.Shape, loop []core.Approval) (core.Shape, error) {
	if approval.Confirmation(p, false) != "" {
		return s, typed(ctx, a, p)
	}
	question := func() string {
		return fmt.Sprintf("approve up to %s within these bounds?", layout.Plural(s.Max, "call"))
	}
	for {
		other := 0
		ok, err := app.YesNo{
			Question: question(), Enter: true, Other: "a number of calls",
			Else: func(line string) bool {
				other, _ = strconv.Atoi(line)
				return other > 0
			},
		}.Ask(ctx, a)
		switch {
		case err != nil:
			return s, err
		case ok:
			return s, nil
		case other == 0:
			return s, leftOpen(p)
		}
		changed, wrong := approval.EditShape(s, loop, []string{fmt.Sprintf("max %d", other)}, a.Now())
		if len(wrong) > 0 {
			a.Say("%s", strings.Join(wrong, "; "))
			continue
		}
		s = changed
		if err := showShape(a, s, loop); err != nil {
			return s, err
		}
	}
}

// shownCalls is how many calls of a loop the table has.
const shownCalls = 50

// showShape puts bounds on stderr, with a table of the calls that are known.
func showShape(a *app.App, s core.Shape, loop []core.Approval) error {
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	if a.AsJSON() && !a.CanAsk() {
		return a.SayJSON(map[string]any{"bounds": s, "bounds_digest": digest, "calls_known": len(loop)})
	}
	var out strings.Builder
	out.WriteString("bounds:\n")
	for _, line := range approval.ShapeWords(s, loop, a.Now().Location()) {
		out.WriteString(app.Below(a, line))
	}
	out.WriteString(app.Below(a, "digest       "+digest))
	fmt.Fprintf(&out, "%s known so far:\n", layout.Plural(len(loop), "call"))
	columns, calls := approval.LoopTable(s, loop)
	for i, c := range calls {
		if i == shownCalls {
			fmt.Fprintf(&out, "  … %d more\n", len(calls)-i)
			break
		}
		var parts []string
		for n, v := range c.Values {
			parts = append(parts, core.Visible(columns[n], 40, false)+" "+core.Visible(v, 80, false))
		}
		line := c.ID.Short() + "  " + strings.Join(parts, "  ")
		if c.Asks != "" {
			line += "  (asked about by itself: " + c.Asks + ")"
		}
		out.WriteString(app.Below(a, strings.TrimRight(line, " ")))
	}
	_, err = io.WriteString(a.Stderr, out.String())
	return err
}
