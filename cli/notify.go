package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func notifyCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "notify",
		Short: "Messages about approvals, to where you are",
		Long: `Tells you of approvals that wait while you are away from the terminal, by what
approvals.notify of config.json in pml's home describes: a signed webhook, ntfy,
Slack, Telegram, a command or the desktop. A message says how much waits, of which
risk and run, and until when; what was asked only with "details": true.

pml sends in the background, in a process that it starts by itself when something
comes to wait and carriers are configured, and that ends when nothing is left to do.
pml serve sends for its own runs.`,
		Example: "  pml notify ls\n  pml notify test\n  pml notify run",
	}, notifyLsCmd(a), notifyTestCmd(a), notifyRunCmd(a))
}

func notifyLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the carriers, and how they have fared; send nothing",
		Long: `Lists the carriers of approvals.notify: whether they can be used, when each last
took a message of this machine, and what went wrong since.`,
		Example: "  pml notify ls\n  pml notify ls --json | jq '.items[] | select(.state != \"ready\")'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			list, err := b.NotifyCarriers(ctx)
			if err != nil {
				return err
			}
			return app.PrintList(a, api.Page[api.NotifyCarrier]{Items: list}, `no carriers: describe some in "approvals": {"notify": {"carriers": …}} of config.json in pml's home`, []app.Column[api.NotifyCarrier]{
				{Title: "NAME", Get: func(c api.NotifyCarrier) string { return c.Name }, Style: app.Always[api.NotifyCarrier](layout.Ident)},
				{Title: "TYPE", Get: func(c api.NotifyCarrier) string { return c.Type }},
				{Title: "STATE", Get: func(c api.NotifyCarrier) string { return c.State }, Style: func(c api.NotifyCarrier) layout.Style {
					if c.State == api.NotifyReady {
						return layout.Good
					}
					return layout.Bad
				}},
				{Title: "SENT", Get: func(c api.NotifyCarrier) string {
					if c.Sent == nil {
						return "-"
					}
					return layout.Ago(a.Now(), *c.Sent)
				}, Style: app.Always[api.NotifyCarrier](layout.Dim)},
				{Title: "PROBLEM", Get: func(c api.NotifyCarrier) string { return dash(c.Error) }, Flex: true},
			})
		}),
	}
}

func notifyTestCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "test [NAME…]",
		Short: "Send a test message, and say what each carrier answered",
		Long: `Sends a message that says that it is a test by the named carriers, all without
names, at any hour, once. It ends with exit code 1 if one of them did not take it.`,
		Example: "  pml notify test\n  pml notify test phone\n  pml notify test --json | jq '.items[] | select(.ok | not)'",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeCarriers(cmd.Context(), a), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			busy := a.Busy("sending a test message")
			list, err := b.TestNotify(ctx, args...)
			busy.End()
			if err != nil {
				return err
			}
			err = app.PrintList(a, api.Page[api.NotifyTest]{Items: list}, "", []app.Column[api.NotifyTest]{
				{Title: "NAME", Get: func(t api.NotifyTest) string { return t.Name }, Style: app.Always[api.NotifyTest](layout.Ident)},
				{Title: "TYPE", Get: func(t api.NotifyTest) string { return t.Type }},
				{Title: "ANSWER", Flex: true, Get: func(t api.NotifyTest) string {
					if t.OK {
						return "taken"
					}
					return t.Error
				}, Style: func(t api.NotifyTest) layout.Style {
					if t.OK {
						return layout.Good
					}
					return layout.Bad
				}},
				{Title: "TIME", Get: func(t api.NotifyTest) string {
					return time.Duration(t.TimeMS * float64(time.Millisecond)).Round(time.Millisecond).String()
				}, Style: app.Always[api.NotifyTest](layout.Dim)},
			})
			for _, t := range list {
				if err == nil && !t.OK {
					return app.ExitStatus(app.ExitFailed)
				}
			}
			return err
		}),
	}
}

func completeCarriers(ctx context.Context, a *app.App) (names []string) {
	b, err := a.PassiveBackend(ctx)
	if err != nil {
		return nil
	}
	list, err := b.NotifyCarriers(ctx)
	if err != nil {
		return nil
	}
	for _, c := range list {
		names = append(names, core.Visible(c.Name, 0, false)+"\t"+c.Type)
	}
	return names
}

func notifyRunCmd(a *app.App) *cobra.Command {
	var o app.NotifyOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Send in this process, until it is stopped",
		Long: `Sends the messages of this machine in this process, until it is stopped or, with
--idle, has had nothing to do for that long. One process of a home sends. pml starts
one in the background by itself, unless PML_NO_AUTOSTART or CI is set, or on Windows:
there, or under systemd, start this one.`,
		Example: "  pml notify run\n  pml notify run --idle 10m",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Notify == nil {
				return core.Errorf(core.CodeInternal, "this build of pml sends no messages")
			}
			o.Home = a.Flags.Home
			o.Log, _ = a.Environ("PML_LOG")
			if a.Human() && !o.Background {
				o.Ready = func() { a.Say("sends messages about what waits on this machine; Ctrl+C ends it") }
			}
			return a.Notify(cmd.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.Idle, "idle", 0, "leave after this long with nothing to do; 0 never")
	cmd.Flags().BoolVar(&o.Background, "background", false, "log to a file, as pml starts it by itself")
	_ = cmd.Flags().MarkHidden("background")
	return cmd
}
