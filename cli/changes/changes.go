// Package changes shows a change of configuration files, asks whether it may be
// made, and writes it.
package changes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Flags are the flags of commands that change configuration.
type Flags struct {
	Yes   bool
	trust bool
}

// AddFlags adds --yes and, where a change may be one of a workspace, --trust.
func AddFlags(cmd *cobra.Command, f *Flags, workspace bool) {
	if !workspace {
		cmd.Flags().BoolVar(&f.Yes, "yes", false, "write without asking")
		return
	}
	cmd.Flags().BoolVar(&f.Yes, "yes", false, "write without asking (with --trust only with the PIN where people decide)")
	cmd.Flags().BoolVar(&f.trust, "trust", false, "without a terminal: keep a trusted workspace trusted with exactly this change, as a yes to the change that is shown does at one; where people decide, one of them agrees at a terminal, with the PIN if one is set")
}

// Proposal is a change that a command would make, as a program reads it, and
// what has become of it.
type Proposal struct {
	Sources []api.ImportSource `json:"sources,omitempty"`
	api.ChangeSet
	Written bool `json:"written"`
	// Trusted says whether the workspace is trusted after the change; it is
	// left out where the change has nothing to do with that.
	Trusted *bool `json:"trusted,omitempty"`
	// Removed is what this machine kept of servers and keeps no more.
	Removed []api.Removed `json:"removed,omitempty"`

	// Ask is the question, Again the command that writes without asking.
	Ask   string   `json:"-"`
	Again []string `json:"-"`
	trust bool     // --trust was given
	// InPerson: there is no --yes, somebody at a terminal agrees.
	InPerson bool `json:"-"`
	// AtOnce: it lets more through as soon as it is written, as no trust covers it. It takes
	// the PIN where one is set, and the audit log has it.
	AtOnce bool `json:"-"`
}

// Propose shows a change, asks, and writes it. Without a terminal and without
// --yes nothing is written. p says afterwards what was done.
func Propose(ctx context.Context, a *app.App, b app.Backend, p *Proposal, f Flags) error {
	if p.Changes == nil {
		p.Changes = []api.Change{} // a list for programs, not null
	}
	p.trust = f.trust
	showProposal(a, p)
	if p.Empty() {
		return nil
	}
	if !f.Yes {
		if err := AgreeToChange(ctx, a, p); err != nil {
			return err
		}
	}
	keep, touches, err := keepTrust(ctx, a, b, p, f)
	if err == nil && keep && f.trust && f.Yes { // else a person has just said yes at a terminal
		err = mayKeepTrust(ctx, b, p)
	}
	if err != nil {
		return err
	}
	pin := ""
	if keep = keep || p.AtOnce; keep {
		if pin, err = a.PinFor(ctx, b, false); err != nil {
			return err
		}
	}
	trusted, err := b.Write(ctx, p.ChangeSet, keep, pin)
	if err != nil {
		return err
	}
	p.Written = true
	if touches {
		p.Trusted = &trusted
	}
	return nil
}

func showProposal(a *app.App, p *Proposal) {
	if !a.Human() {
		return
	}
	var w strings.Builder
	for _, s := range p.Sources {
		writeSource(&w, s)
	}
	for _, c := range p.Changes {
		WriteChange(&w, c)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&w, "note: %s\n", core.Visible(n, 0, false))
	}
	Show(a, w.String())
}

// AgreeToChange asks whether what was shown may be written.
func AgreeToChange(ctx context.Context, a *app.App, p *Proposal) error {
	switch {
	case !a.CanAsk() && p.InPerson:
		return core.Errorf(core.CodeAwaitingHuman, "nothing was written: there is no terminal to ask on, and a person has to agree to this").WithNext(p.Again...)
	case !a.CanAsk():
		return core.Errorf(core.CodeAwaitingHuman, "nothing was written: there is no terminal to ask on; look at the change, then write it with --yes").
			WithNext(p.Again...)
	}
	ok, err := a.AskYes(ctx, p.Ask)
	if err == nil && !ok {
		err = core.Errorf(core.CodeDenied, "nothing was written")
	}
	return err
}

// keepTrust settles whether a trusted workspace stays trusted with the change.
// touches reports whether the change is one of what trust covers.
func keepTrust(ctx context.Context, a *app.App, b app.Backend, p *Proposal, f Flags) (keep, touches bool, err error) {
	paths, err := b.Paths(ctx)
	if err != nil {
		return false, false, err
	}
	touches = slices.ContainsFunc(p.Changes, func(c api.Change) bool { return c.File == paths.Config || c.File == paths.Lock })
	if !touches {
		return false, false, nil
	}
	t, err := b.Trust(ctx)
	if err != nil || !t.Trusted && !t.Empty {
		return false, true, err
	}
	if f.trust || f.Yes || !a.CanAsk() {
		return f.trust, true, nil
	}
	if need, err := b.NeedsPin(ctx); err != nil || !need {
		return err == nil, true, err // a person has read the change and said yes to it
	}
	keep, err = a.AskYes(ctx, "keep the workspace trusted with exactly this change? it takes the PIN")
	return keep, true, err
}

// mayKeepTrust refuses --trust where people decide and no PIN shows that one does.
func mayKeepTrust(ctx context.Context, b app.Backend, p *Proposal) error {
	if shows, err := b.ShowsPerson(ctx); err != nil || shows {
		return err // the PIN is asked for
	}
	t, err := b.Trust(ctx)
	if err == nil && t.Human {
		err = core.Errorf(core.CodeAwaitingHuman, "nothing was written: people decide in %s (approvals.decider is human), so one of them agrees to --trust: at a terminal without --yes, or with the PIN (pml config pin; without a terminal --pin-fd)",
			core.Visible(t.Workspace, 0, false)).WithNext(withoutYes(p.Again)...)
	}
	return err
}

// withoutYes is a command without --yes; what stands after -- is another program's.
func withoutYes(argv []string) []string {
	end := slices.Index(argv, "--")
	if end < 0 {
		end = len(argv)
	}
	own := slices.DeleteFunc(slices.Clone(argv[:end]), func(arg string) bool { return arg == "--yes" })
	return append(own, argv[end:]...)
}

// Conclude prints what became of a proposal. A program gets it when nothing
// was written as well, beside the error that says why.
func Conclude(a *app.App, p *Proposal, err error, next ...string) error {
	if err != nil {
		undecided := []core.Code{core.CodeAwaitingHuman, core.CodeDenied, core.CodeAuth}
		if !a.Human() && slices.Contains(undecided, core.CodeOf(err)) {
			if perr := a.Encode(p, a.Format()); perr != nil {
				return perr
			}
		}
		return err
	}
	if err := a.Print(p, p.text); err != nil {
		return err
	}
	switch {
	case p.Trusted != nil && !*p.Trusted:
		if p.trust {
			a.Note("note: --trust keeps a trusted workspace trusted, and this one was not: pml trust shows all that its files grant")
		}
		a.Note("next: pml trust")
	case p.Written && len(next) > 0:
		a.Note("next: %s", layout.ShellJoin(next))
	}
	return nil
}

func (p *Proposal) text(w *strings.Builder) {
	if p.Empty() && len(p.Removed) == 0 {
		w.WriteString("nothing to change\n")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(w, "wrote %s\n", core.Visible(c.File, 0, false))
	}
	for _, r := range p.Removed {
		writeRemoved(w, r)
	}
}

// Show writes to standard error what would change in files: what comes and what goes
// in colour, notes folded at the width of the terminal, the rest as it is.
func Show(a *app.App, text string) {
	if a.StderrTTY {
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			for _, note := range []string{"  note: ", "note: ", "warning: ", "to remove: ", "left as it is, "} { // no line of a change begins like that
				if rest, is := strings.CutPrefix(l, note); is {
					lines[i] = note + strings.Join(layout.Wrap(rest, max(a.Width()-len(note), 0)), "\n    ")
				}
			}
		}
		text = strings.Join(lines, "\n")
	}
	io.WriteString(a.Stderr, layout.Diff(text, a.ColourErr()))
}

// WriteChange shows what changes in a file, line by line.
func WriteChange(w *strings.Builder, c api.Change) {
	fmt.Fprintf(w, "in %s:\n", core.Visible(c.File, 0, false))
	layout.WriteLines(w, strings.Split(strings.TrimRight(c.Diff, "\n"), "\n"), 2)
	for _, n := range c.Notes {
		fmt.Fprintf(w, "  note: %s\n", core.Visible(n, 0, false))
	}
}

func writeSource(w *strings.Builder, s api.ImportSource) {
	names := "no servers"
	if len(s.Servers) > 0 {
		names = strings.Join(s.Servers, ", ")
	}
	fmt.Fprintf(w, "from %s (%s): %s\n", core.Visible(s.File, 0, false), core.Visible(s.Host, 0, false), core.Visible(names, 0, false))
	for _, text := range s.Skipped {
		fmt.Fprintf(w, "  not taken over: %s\n", core.Visible(text, 0, false))
	}
}

func writeRemoved(w *strings.Builder, r api.Removed) {
	for _, t := range r.Trees {
		fmt.Fprintf(w, "removed %s\n", core.Visible(t, 0, false))
	}
	if len(r.Trees) > 0 {
		fmt.Fprintf(w, "%s freed\n", layout.Size(r.Bytes))
	}
	for _, k := range r.Kept {
		fmt.Fprintf(w, "kept: %s\n", core.Visible(k, 0, false))
	}
	if len(r.Trees)+len(r.Kept) == 0 {
		fmt.Fprintf(w, "no package of %s is installed on this machine\n", core.Visible(r.Name, 0, false))
	}
}
