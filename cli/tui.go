package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
)

func tuiCmd(a *app.App) *cobra.Command {
	var o app.TerminalOptions
	var printKeys bool
	cmd := &cobra.Command{
		Use:   "tui",
		Short: "Watch everything live and decide: the full screen",
		Long: `Shows all runs and everything that waits for a person, of this machine and of its
server, live, and takes decisions. --plain is the same as a dialogue of lines, for
screen readers and simple terminals. --demo plays a script with runs and approvals
of all kinds; it needs no set-up and changes nothing.

Keys, theme and notifications are configured under "tui" in config.json of pml's
folder; --print-keys lists the actions and their keys.`,
		Example: `  pml tui
  pml tui --demo
  pml tui --plain
  pml tui --theme modus --notify bell
  pml tui --print-keys --json`,
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printKeys {
				return writeKeys(a)
			}
			return tui(a, cmd, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Demo, "demo", false, "play a script: no set-up, nothing is changed")
	f.BoolVar(&o.Plain, "plain", false, "a dialogue of lines instead of a full screen")
	f.BoolVar(&o.ASCII, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.Theme, "theme", "", "auto, ansi, dark, light or modus")
	f.StringVar(&o.Color, "color", "auto", "auto, always or never")
	f.StringVar(&o.Notify, "notify", "", "how to tell of what waits: off, bell or osc")
	f.BoolVar(&printKeys, "print-keys", false, "print the actions and their keys, with --json as a JSON Schema")
	_ = cmd.RegisterFlagCompletionFunc("theme", app.CompleteFixed("auto", "ansi", "dark", "light", "modus"))
	_ = cmd.RegisterFlagCompletionFunc("color", app.CompleteFixed("auto", "always", "never"))
	_ = cmd.RegisterFlagCompletionFunc("notify", app.CompleteFixed("off", "bell", "osc"))
	return cmd
}

// tui checks the choices and runs the terminal.
func tui(a *app.App, cmd *cobra.Command, o app.TerminalOptions) error {
	if err := app.OneOf("color", o.Color, "auto", "always", "never"); err != nil {
		return err
	}
	if o.Theme != "" {
		if err := app.OneOf("theme", o.Theme, "auto", "ansi", "dark", "light", "modus"); err != nil {
			return err
		}
	}
	if o.Notify != "" {
		if err := app.OneOf("notify", o.Notify, "off", "bell", "osc"); err != nil {
			return err
		}
	}
	if a.AsJSON() {
		return app.Usagef("pml tui is for people; programs read the same with pml workflows ls --json and pml events --follow --json").
			WithNext("pml", "events", "--follow", "--json")
	}
	o.PlainBy = plainBy(a, o.Plain)
	o.Plain = o.PlainBy != ""
	if !o.Plain && (!a.StdinTTY || !a.StdoutTTY) {
		return app.Usagef("pml tui needs a terminal; without one use --plain, or pml approvals ls").WithNext("pml", "approvals", "ls")
	}
	if a.Flags.NoColor {
		o.Color = "never"
	}
	if a.Terminal == nil {
		return core.Errorf(core.CodeInternal, "this build of pml has no terminal")
	}
	level, _ := a.Environ("PML_LOG")
	o.OpenOptions = app.OpenOptions{Home: a.Flags.Home, Server: a.Flags.Server, Log: level}
	for _, c := range cmd.Root().Commands() {
		o.Commands = append(append(o.Commands, c.Name()), c.Aliases...)
	}
	left, err := a.Terminal(cmd.Context(), o)
	for _, id := range left {
		a.Say("run %s is not finished; it goes on with: pml continue %s", id.Short(), id.Short())
	}
	return err
}

// plainBy is what asks for a dialogue of lines, empty where nothing does.
func plainBy(a *app.App, flag bool) string {
	plain, _ := a.Environ("PML_PLAIN")
	term, _ := a.Environ("TERM")
	switch {
	case flag:
		return "--plain"
	case plain != "" && plain != "0":
		return "PML_PLAIN"
	case term == "dumb":
		return "TERM=dumb"
	}
	return ""
}

// writeKeys prints the actions of the terminal with their keys.
func writeKeys(a *app.App) error {
	if a.AsJSON() {
		return printJSON(a, keys.Schema())
	}
	m, err := keys.New(nil)
	if err != nil {
		return err
	}
	type row struct{ Action, Keys, What string }
	rows := []row{}
	for _, action := range keys.All() {
		rows = append(rows, row{string(action), strings.Join(m.Keys(action), " "), keys.Label(action)})
	}
	return app.PrintList(a, api.Page[row]{Items: rows}, "no actions", []app.Column[row]{
		{Title: "ACTION", Get: func(r row) string { return r.Action }},
		{Title: "KEYS", Get: func(r row) string { return r.Keys }},
		{Title: "WHAT", Get: func(r row) string { return r.What }},
	})
}
