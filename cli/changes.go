package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// changeFlags are the flags of commands that change configuration.
type changeFlags struct {
	yes   bool
	trust bool
}

func addChangeFlags(cmd *cobra.Command, f *changeFlags, workspace bool) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without asking")
	if workspace {
		cmd.Flags().BoolVar(&f.trust, "trust", false, "keep a trusted workspace trusted with exactly this change")
	}
}

// proposal is a change that a command would make, as a program reads it, and
// what has become of it.
type proposal struct {
	Sources []api.ImportSource `json:"sources,omitempty"`
	api.ChangeSet
	Written bool `json:"written"`
	// Trusted says whether the workspace is trusted after the change; it is
	// left out where the change has nothing to do with that.
	Trusted *bool        `json:"trusted,omitempty"`
	Removed *api.Removed `json:"removed,omitempty"`

	// ask is the question, again the command that writes without asking.
	ask   string
	again []string
}

// propose shows a change, asks, and writes it. Without a terminal and without
// --yes nothing is written. p says afterwards what was done.
func (a *app) propose(ctx context.Context, b Backend, p *proposal, f changeFlags) error {
	if p.Changes == nil {
		p.Changes = []api.Change{} // a list for programs, not null
	}
	a.showProposal(p)
	if p.Empty() {
		return nil
	}
	if !f.yes {
		if err := a.agreeToChange(ctx, p); err != nil {
			return err
		}
	}
	keep, touches, err := a.keepTrust(ctx, b, p, f)
	if err != nil {
		return err
	}
	pin := ""
	if keep {
		if pin, err = a.pinFor(ctx, b, false); err != nil {
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

func (a *app) showProposal(p *proposal) {
	if !a.human() {
		return
	}
	var w strings.Builder
	for _, s := range p.Sources {
		writeSource(&w, s)
	}
	for _, c := range p.Changes {
		writeChange(&w, c)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&w, "note: %s\n", core.Visible(n, 0, false))
	}
	io.WriteString(a.Stderr, w.String())
}

func (a *app) agreeToChange(ctx context.Context, p *proposal) error {
	if !a.asks() {
		return core.Errorf(core.CodeAwaitingHuman, "nothing was written: there is no terminal to ask on; look at the change, then write it with --yes").
			WithNext(p.again...)
	}
	ok, err := a.askYes(ctx, p.ask)
	if err == nil && !ok {
		err = core.Errorf(core.CodeDenied, "nothing was written")
	}
	return err
}

// keepTrust settles whether a trusted workspace stays trusted with the change.
// touches reports whether the change is one of what trust covers.
func (a *app) keepTrust(ctx context.Context, b Workspace, p *proposal, f changeFlags) (keep, touches bool, err error) {
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
	if f.trust || f.yes || !a.asks() {
		return f.trust, true, nil
	}
	keep, err = a.typeOut(ctx, "this workspace is trusted: keep it trusted with exactly this change? type yes: ", "yes")
	return keep, true, err
}

// concluded prints what became of a proposal. A program gets it when nothing
// was written as well, beside the error that says why.
func (a *app) concluded(p *proposal, err error, next ...string) error {
	if err != nil {
		undecided := []core.Code{core.CodeAwaitingHuman, core.CodeDenied, core.CodeAuth}
		if !a.human() && slices.Contains(undecided, core.CodeOf(err)) {
			if perr := a.encode(p, a.format()); perr != nil {
				return perr
			}
		}
		return err
	}
	if err := a.print(p, p.text); err != nil {
		return err
	}
	switch {
	case p.Trusted != nil && !*p.Trusted:
		a.note("next: pml trust")
	case p.Written && len(next) > 0:
		a.note("next: %s", shellJoin(next))
	}
	return nil
}

func (p *proposal) text(w *strings.Builder) {
	if p.Empty() && p.Removed == nil {
		w.WriteString("nothing to change\n")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(w, "wrote %s\n", core.Visible(c.File, 0, false))
	}
	if p.Removed != nil {
		writeRemoved(w, *p.Removed)
	}
}

// writeChange shows what changes in a file, line by line.
func writeChange(w *strings.Builder, c api.Change) {
	fmt.Fprintf(w, "in %s:\n", core.Visible(c.File, 0, false))
	writeLines(w, strings.Split(strings.TrimRight(c.Diff, "\n"), "\n"), 2)
	for _, n := range c.Notes {
		fmt.Fprintf(w, "  note: %s\n", core.Visible(n, 0, false))
	}
}

// writeLines shows lines as they are, none of them able to act on a terminal
// or to look like two.
func writeLines(w *strings.Builder, lines []string, indent int) {
	pad := strings.Repeat(" ", indent)
	for _, l := range lines {
		w.WriteString(strings.TrimRight(pad+core.Visible(strings.TrimSuffix(l, "\r"), 0, false), " ") + "\n")
	}
}

// withFlags is the command line of this invocation with more flags, before
// what stands behind "--".
func (a *app) withFlags(flags ...string) []string {
	argv := append([]string{"pml"}, a.args...)
	i := slices.Index(argv, "--")
	if i < 0 {
		i = len(argv)
	}
	return slices.Insert(argv, i, flags...)
}
