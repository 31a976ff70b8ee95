package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// hostNames are the hosts that --host names, as the help lists them.
var hostNames = []string{"claude-code", "vscode", "cursor", "codex", "opencode", "gemini", "qwen", "claude-desktop", "claude-code-user"}

// initOptions are the flags of pml init.
type initOptions struct {
	hosts    []string
	allHosts bool
	undo     bool
	yes      bool
	decider  string
}

// The answers to who decides, as --decider has them.
const (
	deciderHuman  = "human"  // only you, at a terminal
	deciderDialog = "dialog" // only you, there or in the dialog of the agent's host
	deciderAny    = "any"    // the agent may pass on your yes
)

func initCmd(a *app.App) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first .pml.json, and register pml with agent hosts",
		Long: `Writes a first .pml.json that grants nothing yet, with remarks on what can be
set. An existing one is left alone. On a terminal it asks who decides what pml
asks, and writes the answer (approvals.decider): only you, which is recommended
and what enter takes; only you, also in the dialog of the agent's host; or the
agent as well, which may pass on your yes to what is not of high risk. An agent
whose host runs without a person before it was seen to approve its own calls.
--decider answers beforehand; without it and without a terminal it writes that
only you decide, and says so.

On a terminal it then offers to register pml with the agent hosts that it finds:
claude-code (.mcp.json), vscode (.vscode/mcp.json), cursor (.cursor/mcp.json),
codex (~/.codex/config.toml), opencode (opencode.json), gemini and qwen (the
settings.json in .gemini and .qwen), claude-desktop, and claude-code-user (Claude
Code in every folder). Each change is shown first; the rest of a file stays as it is,
byte for byte, and no key is written. Elsewhere hosts are named with --host or
--all-hosts, and --yes writes. --undo takes out again what was added.

Where hosts know MCP servers already, it offers to take them over, as
"pml servers import" does.`,
		Example: `  pml init && $EDITOR .pml.json && pml trust
  pml init --decider human --host claude-code --host vscode --yes
  pml init --all-hosts
  pml init --undo`,
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			b, err := a.Backend(cmd.Context())
			if err != nil {
				return err
			}
			if o.undo {
				return unregister(cmd.Context(), a, b, o)
			}
			return initialize(cmd.Context(), a, b, o)
		},
	}
	cmd.Flags().StringArrayVar(&o.hosts, "host", nil, "register pml with this agent host (may be repeated)")
	_ = cmd.RegisterFlagCompletionFunc("host", app.CompleteFixed(hostNames...))
	cmd.Flags().BoolVar(&o.allHosts, "all-hosts", false, "register pml with every agent host that is found")
	cmd.Flags().StringVar(&o.decider, "decider", "", "who decides: human (only you), dialog (also in the host's dialog) or any (the agent, too)")
	_ = cmd.RegisterFlagCompletionFunc("decider", app.CompleteFixed(deciderHuman, deciderDialog, deciderAny))
	cmd.Flags().BoolVar(&o.undo, "undo", false, "take pml out of the agent hosts again; .pml.json stays")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "write without asking")
	return cmd
}

// named reports whether it was said which hosts are meant.
func (o initOptions) named() bool { return o.allHosts || len(o.hosts) > 0 }

func (o initOptions) check() error {
	switch {
	case o.undo && o.decider != "":
		return app.Usagef("--decider is for a new .pml.json: it does not go with --undo").WithNext("pml", "init", "--help")
	case o.allHosts && len(o.hosts) > 0:
		return app.Usagef("--host and --all-hosts exclude each other").WithNext("pml", "init", "--help")
	case o.yes && !o.undo && !o.named():
		return app.Usagef("--yes is for hosts that are named: add --host NAME or --all-hosts").WithNext("pml", "init", "--help")
	}
	if o.decider != "" {
		return app.OneOf("decider", o.decider, deciderHuman, deciderDialog, deciderAny)
	}
	return nil
}

// initiated is what pml init has done, for a program to read.
type initiated struct {
	Path string `json:"path,omitempty"`
	// Kept says that there was a .pml.json already.
	Kept bool `json:"kept,omitempty"`
	// Decider is who decides, as it was written.
	Decider string           `json:"decider,omitempty"`
	Hosts   []api.HostChange `json:"hosts,omitempty"`
}

func initialize(ctx context.Context, a *app.App, b app.Backend, o initOptions) error {
	var out initiated
	who, err := whoDecides(ctx, a, b, o)
	if err != nil {
		return err
	}
	out.Path, err = b.Init(ctx, api.Deciders{Agents: who == deciderAny, Dialog: who == deciderDialog})
	if err == nil {
		out.Decider = who
	}
	switch {
	// It is there already: that only matters to who wants nothing else.
	case core.CodeOf(err) == core.CodeInvalidArguments && (o.named() || a.CanAsk()):
		out.Kept = true
		a.Note("note: %s", core.Visible(core.AsError(err).Message, 0, false))
		if unchosen(ctx, b) {
			a.Note(`note: nobody has chosen who decides here, so an agent may approve what is not of high risk; add "approvals": {"decider": "human"} to it, which is recommended, or "any"`)
		}
	case err != nil:
		return err
	case a.Human():
		if err := a.Write("wrote " + core.Visible(out.Path, 0, false) + "\n"); err != nil {
			return err
		}
		a.Note("note: %s", decidersSaid(who, o.decider == "" && (o.yes || !a.CanAsk())))
	}
	out.Hosts, err = offerHosts(ctx, a, b, o)
	if err == nil {
		err = offerImport(ctx, a, b)
	}
	if !a.Human() {
		if perr := a.Encode(out, a.Format()); perr != nil {
			return perr
		}
	}
	return err
}

// whoDecides asks who decides what pml asks, where there is a person to ask and a file
// to write; otherwise it takes what was said, or that only people do.
func whoDecides(ctx context.Context, a *app.App, b app.Backend, o initOptions) (string, error) {
	if o.decider != "" {
		return o.decider, nil
	}
	p, err := b.Paths(ctx)
	if err != nil || !a.CanAsk() || o.yes {
		return deciderHuman, err
	}
	if _, err := os.Lstat(p.Config); err == nil { // it is left alone
		return deciderHuman, nil
	}
	io.WriteString(a.Stderr, "May the agent pass on your yes to what pml asks, or only you?\n"+
		"  [o] only you, at a terminal (recommended: enter takes it)\n"+
		"  [d] only you, there or in the dialog of the agent's host, where that shows one\n"+
		"  [a] the agent as well, for what is not of high risk\n")
	for {
		io.WriteString(a.Stderr, "who decides? [o]nly you / [d]ialog too / [a]gent too: ")
		line, err := a.ReadLine(ctx)
		if errors.Is(err, io.EOF) {
			io.WriteString(a.Stderr, "\n")
			return "", core.Errorf(core.CodeAwaitingHuman, "nobody answered: nothing was written").WithNext("pml", "init", "--decider", deciderHuman)
		}
		if err != nil {
			return "", core.Errorf(core.CodeCancelled, "nothing was written: %w", err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "o", "only", deciderHuman:
			return deciderHuman, nil
		case "d", deciderDialog:
			return deciderDialog, nil
		case "a", "agent", deciderAny:
			return deciderAny, nil
		}
	}
}

// unchosen reports whether nobody has chosen who decides in the workspace.
func unchosen(ctx context.Context, b api.Workspace) bool {
	raw, err := b.Config(ctx)
	var cfg struct {
		Approvals struct {
			From string `json:"decider_from"`
		} `json:"approvals"`
	}
	return err == nil && json.Unmarshal(raw, &cfg) == nil && cfg.Approvals.From == "default"
}

// decidersSaid says what was written of who decides; unasked: without anybody's word.
func decidersSaid(who string, unasked bool) string {
	text := map[string]string{
		deciderHuman:  "people decide what it asks, no agent (approvals.decider is human): in pml tui, or with pml approve",
		deciderDialog: "people decide what it asks, no agent: in pml tui, with pml approve, or in the agent's own dialog once you trust the file (approvals.trust_host)",
		deciderAny:    "an agent may pass on a yes to what is not of high risk (approvals.decider is any); what it decides is marked, and pml status counts it",
	}[who]
	if unasked {
		text += "; nobody was asked: pml init --decider any or dialog writes something else"
	}
	return text
}

// offerHosts registers pml with the hosts that were named, or on a terminal
// with those that a person agrees to. Without both it only says that it can.
func offerHosts(ctx context.Context, a *app.App, b app.Backend, o initOptions) ([]api.HostChange, error) {
	list, err := b.HostChanges(ctx, api.HostRequest{Hosts: o.hosts})
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
	if len(list) == 0 && o.named() {
		a.Note("no agent host was found; name one: --host claude-code")
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
	list, err := b.HostChanges(ctx, api.HostRequest{Hosts: o.hosts, Undo: true})
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
	io.WriteString(a.Stderr, w.String())
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

// offerImport offers to take over what agent hosts know. The file is written by
// now: nothing that goes wrong here makes init fail, except what was agreed to.
func offerImport(ctx context.Context, a *app.App, b app.Backend) error {
	imp, err := b.ImportServers(ctx, api.ImportRequest{})
	if err != nil {
		a.Note("note: what agent hosts know cannot be read: %s", core.Visible(err.Error(), 2000, false))
	}
	if err != nil || imp.Empty() {
		a.Note("next: pml trust --show")
		return nil
	}
	if !a.CanAsk() {
		a.Note("agent hosts know MCP servers that can be taken over")
		a.Note("next: pml servers import")
		return nil
	}
	p := &changes.Proposal{Sources: imp.Sources, ChangeSet: imp.ChangeSet, Ask: "take these servers over?"}
	if err := changes.Propose(ctx, a, b, p, changes.Flags{}); err != nil {
		if c := core.CodeOf(err); c != core.CodeDenied && c != core.CodeAwaitingHuman {
			return err
		}
		a.Note("no server was taken over")
		a.Note("next: pml servers import")
		return nil
	}
	return changes.Conclude(a, p, nil, "pml", "servers", "check")
}
