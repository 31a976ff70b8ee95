package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// offerHosts registers pml with the hosts that were named, or on a terminal
// with those that a person agrees to. Without both it only says that it can.
func offerHosts(ctx context.Context, a *app.App, b app.Backend, o initOptions) ([]api.HostChange, error) {
	list, err := b.HostChanges(ctx, api.HostRequest{Hosts: o.hosts, Hooks: o.hooks})
	if err != nil && !o.named() {
		a.Note("note: agent hosts cannot be looked at: %s", core.Visible(err.Error(), 2000, false))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !o.named() && !a.CanAsk() {
		if names := offered(list); len(names) > 0 {
			a.Note("agent hosts that do not know pml yet: %s", strings.Join(names, ", "))
			a.Note("next: pml init --all-hosts")
		}
		return nil, nil
	}
	if len(list) == 0 {
		a.Note("note: no agent host was found here; to name one: pml init --host claude-code")
	}
	return list, settleHosts(ctx, a, b, o, list)
}

func offered(list []api.HostChange) []string {
	var out []string
	for _, h := range list {
		if h.Change != nil && h.Covered == "" {
			out = append(out, h.Host)
		}
	}
	return out
}

// unregister takes out of hosts what pml has added.
func unregister(ctx context.Context, a *app.App, b app.Backend, o initOptions) error {
	list, err := b.HostChanges(ctx, api.HostRequest{Hosts: o.hosts, Hooks: o.hooks, Undo: true})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.Note("pml has added nothing to agent hosts from this workspace")
	}
	err = settleHosts(ctx, a, b, o, list)
	if !a.Human() {
		if list == nil {
			list = []api.HostChange{}
		}
		if perr := a.Encode(map[string]any{"hosts": list}, a.Format()); perr != nil {
			return perr
		}
	}
	return err
}

// settleHosts goes through changes one by one. What is in the way of one does
// not keep the others; the first fault is the error.
func settleHosts(ctx context.Context, a *app.App, b api.Hosts, o initOptions, list []api.HostChange) error {
	var first error
	undecided := false
	for i := range list {
		h := &list[i]
		err := settleHost(ctx, a, b, o, h, list)
		switch {
		case err == nil:
		case core.CodeOf(err) == core.CodeAwaitingHuman:
			undecided = true
		case core.CodeOf(err) == core.CodeCancelled:
			return err
		default:
			h.Reason = core.Visible(err.Error(), 500, false)
			a.Note("note: %s: %s", core.Visible(h.Title, 60, false), h.Reason)
			if first == nil {
				first = err
			}
		}
	}
	if first == nil && undecided && (o.named() || o.undo) {
		first = core.Errorf(core.CodeAwaitingHuman, "not everything was written: there is nobody to ask; look at the changes, then write them with --yes").
			WithNext(a.WithFlags("--yes")...)
	}
	return first
}

// settleHost shows one change, asks, and writes it.
func settleHost(ctx context.Context, a *app.App, b api.Hosts, o initOptions, h *api.HostChange, all []api.HostChange) error {
	byName := slices.Contains(o.hosts, h.Host)
	title, file := core.Visible(h.Title, 60, false), core.Visible(h.File, 0, false)
	covered := h.Covered != "" && slices.ContainsFunc(all, func(c api.HostChange) bool { return c.Host == h.Covered && c.Written })
	switch {
	case h.State == api.HostRegistered && h.Covered != "":
		return nil
	case h.State == api.HostRegistered:
		a.Note("%s knows pml already", title)
		return nil
	case h.State == api.HostGone:
		a.Note("%s has no entry of pml any more: %s", title, file)
		return b.WriteHost(ctx, *h)
	case h.State == api.HostUnusable && byName:
		return core.Errorf(core.CodeInvalidConfig, "%s is left as it is: %s", file, h.Reason)
	case h.State == api.HostUnusable:
		a.Note("note: %s: %s is left as it is: %s", title, file, core.Visible(h.Reason, 500, false))
		return nil
	case h.Change == nil, covered && !byName:
		return nil
	}
	showHost(a, h)
	foreign := h.State == api.HostDiffers || h.State == api.HostChanged
	if o.yes && foreign && !byName {
		a.Note("note: that entry is not pml's own and stays; to agree to this, name it: --host %s", h.Host)
		return nil
	}
	if !o.yes {
		ok, err := askHost(ctx, a, h, foreign)
		if err != nil || !ok {
			return err
		}
	}
	if err := b.WriteHost(ctx, *h); err != nil {
		return err
	}
	h.Written = true
	return saidOfHost(a, h)
}

// showHost shows what would change in the file of a host.
func showHost(a *app.App, h *api.HostChange) {
	if !a.Human() {
		return
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%s, ", core.Visible(h.Title, 60, false))
	changes.WriteChange(&w, *h.Change)
	changes.Show(a, w.String())
}

func askHost(ctx context.Context, a *app.App, h *api.HostChange, foreign bool) (bool, error) {
	if !a.CanAsk() {
		return false, core.Errorf(core.CodeAwaitingHuman, "there is no terminal to ask on")
	}
	question := "register pml here?"
	switch {
	case h.State == api.HostAdded:
		question = "take pml out here?"
	case h.State == api.HostChanged:
		question = "somebody has changed this entry: take it out all the same?"
	case foreign:
		question = "this host knows something else by the name pml: replace it?"
	}
	return a.AskYes(ctx, question)
}

func saidOfHost(a *app.App, h *api.HostChange) error {
	if !a.Human() {
		return nil
	}
	title, file := core.Visible(h.Title, 60, false), core.Visible(h.File, 0, false)
	if h.State == api.HostAdded || h.State == api.HostChanged {
		return a.Write("took pml out of " + title + ": " + file + "\n")
	}
	if err := a.Write("registered pml with " + title + ": " + file + "\n"); err != nil {
		return err
	}
	if h.Hint != "" {
		a.Note("note: %s", core.Visible(h.Hint, 200, false))
	}
	return nil
}
