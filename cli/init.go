package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// hostNames are the hosts that --host names, as the help lists them.
var hostNames = []string{"claude-code", "vscode", "cursor", "codex", "opencode", "gemini", "qwen", "claude-desktop", "claude-code-user"}

// initOptions are the flags of pml init.
type initOptions struct {
	hosts    []string
	allHosts bool
	hooks    bool
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
		Long: `Writes a first .pml.json, with remarks on what can be set. It names no server
yet; tools that only read may run without asking. On a terminal the folder is
then trusted with exactly this file, unless a PIN is set or other files grant
something. An existing .pml.json is left alone, except that where nobody has
chosen who decides it is offered to set that, with the change shown. On a
terminal it asks who decides what pml asks, and writes the answer (approvals.decider): only you, which is recommended
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
"pml servers import" does.

With --hooks it writes pml into the permission hooks of Claude Code (this
workspace's .claude/settings.local.json) and of Codex ($CODEX_HOME/hooks.json)
instead: what these hosts want to do by themselves is then judged by pml's rules and
asked in its inbox (pml hook --help).`,
		Example: `  pml init && $EDITOR .pml.json && pml trust
  pml init --decider human --host claude-code --host vscode --yes
  pml init --all-hosts
  pml init --hooks --host claude-code
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
			if o.hooks {
				for i := range o.hosts {
					o.hosts[i] = strings.TrimSuffix(o.hosts[i], "-hooks") + "-hooks"
				}
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
	cmd.Flags().BoolVar(&o.hooks, "hooks", false, "write pml into the permission hooks of claude-code and codex")
	cmd.Flags().StringVar(&o.decider, "decider", "", "who decides: human (only you), dialog (also in the host's dialog) or any (the agent, too)")
	_ = cmd.RegisterFlagCompletionFunc("decider", app.CompleteFixed(deciderHuman, deciderDialog, deciderAny))
	cmd.Flags().BoolVar(&o.undo, "undo", false, "take pml out of the agent hosts again; .pml.json stays")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "write without asking")
	return cmd
}

// named reports whether it was said which hosts are meant.
func (o initOptions) named() bool { return o.allHosts || o.hooks || len(o.hosts) > 0 }

func (o initOptions) check() error {
	switch {
	case o.undo && o.decider != "":
		return app.Usagef("--decider is for a new .pml.json: it does not go with --undo").WithNext("pml", "init", "--help")
	case o.allHosts && len(o.hosts) > 0:
		return app.Usagef("--host and --all-hosts exclude each other").WithNext("pml", "init", "--help")
	case o.yes && !o.undo && !o.named() && o.decider == "":
		return app.Usagef("--yes is for what is named: add --host NAME, --all-hosts, --hooks or --decider").WithNext("pml", "init", "--help")
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
	// Whoever is there to be asked has asked for the file, and pml has written all of it.
	out.Path, err = b.Init(ctx, decidersOf(who), a.CanAsk())
	if err == nil {
		out.Decider = who
	}
	switch {
	// It is there already: that only matters to who wants nothing else.
	case core.CodeOf(err) == core.CodeInvalidArguments && (o.named() || o.decider != "" || a.CanAsk() || unchosen(ctx, b)):
		out.Kept = true
		a.Note("note: %s is there already", core.Visible(out.Path, 0, false))
		if out.Decider, err = chooseDecider(ctx, a, b, o); err != nil {
			return err
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
	written := slices.ContainsFunc(out.Hosts, func(h api.HostChange) bool { return h.Written })
	said := false
	if err == nil {
		said, err = offerImport(ctx, a, b, o.yes)
	}
	if !a.Human() {
		if perr := a.Encode(out, a.Format()); perr != nil {
			return perr
		}
	}
	switch {
	case err != nil:
	case written:
		a.Note("then start your agent again in this folder, and ask it for something: what pml asks comes up in pml tui and pml approve")
	case !said:
		a.Note("note: without an agent and without servers, scripts have the tools of this folder (pml tools ls)")
		a.Note("next: %s", layout.ShellJoin([]string{"pml", "run", "--code", firstScript}))
		a.Note("next: pml servers add --help")
	}
	return err
}

// offerImport offers to take over what agent hosts know. The file is written by
// now: nothing that goes wrong here makes init fail, except what was agreed to. said
// reports whether it named what comes next.
func offerImport(ctx context.Context, a *app.App, b app.Backend, unasked bool) (said bool, err error) {
	imp, err := b.ImportServers(ctx, api.ImportRequest{})
	if err != nil {
		a.Note("note: what agent hosts know cannot be read: %s", core.Visible(err.Error(), 2000, false))
	}
	if err != nil || imp.Empty() {
		if t, err := b.Trust(ctx); err != nil || !t.Trusted {
			a.Note("next: pml trust --show")
			return true, nil
		}
		return hasServers(ctx, b), nil
	}
	if unasked || !a.CanAsk() {
		a.Note("agent hosts know MCP servers that can be taken over")
		a.Note("next: pml servers import")
		return true, nil
	}
	p := &changes.Proposal{Sources: imp.Sources, ChangeSet: imp.ChangeSet, Ask: "take these servers over?"}
	if err := changes.Propose(ctx, a, b, p, changes.Flags{}); err != nil {
		if c := core.CodeOf(err); c != core.CodeDenied && c != core.CodeAwaitingHuman {
			return true, err
		}
		a.Note("no server was taken over")
		a.Note("next: pml servers import")
		return true, nil
	}
	return true, changes.Conclude(a, p, nil, "pml", "servers", "install", "--all")
}

// hasServers reports whether a server is configured beside pml's own.
func hasServers(ctx context.Context, b app.Backend) bool {
	list, err := b.Servers(ctx)
	return err != nil || slices.ContainsFunc(list, func(s api.ServerInfo) bool { return s.Kind != "builtin" })
}
