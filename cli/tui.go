package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/keys"
)

// TerminalOptions are the choices of the terminal. What is empty or false is
// left to the configuration and the environment.
type TerminalOptions struct {
	OpenOptions
	// Demo plays a script instead of showing this machine's runs.
	Demo bool
	// Plain is a dialogue of lines.
	Plain bool
	// PlainBy is what asked for Plain: --plain, PML_PLAIN or TERM=dumb; empty where
	// nothing did.
	PlainBy string
	ASCII   bool
	// Theme is ansi, dark, light or modus, Color auto, always or never, Notify
	// off, bell or osc.
	Theme, Color, Notify string
}

func (a *app) tuiCmd() *cobra.Command {
	var o TerminalOptions
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
		Args: maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printKeys {
				return a.printKeys()
			}
			return a.tui(cmd, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Demo, "demo", false, "play a script: no set-up, nothing is changed")
	f.BoolVar(&o.Plain, "plain", false, "a dialogue of lines instead of a full screen")
	f.BoolVar(&o.ASCII, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.Theme, "theme", "", "ansi, dark, light or modus")
	f.StringVar(&o.Color, "color", "auto", "auto, always or never")
	f.StringVar(&o.Notify, "notify", "", "how to tell of what waits: off, bell or osc")
	f.BoolVar(&printKeys, "print-keys", false, "print the actions and their keys, with --json as a JSON Schema")
	_ = cmd.RegisterFlagCompletionFunc("theme", fixed("ansi", "dark", "light", "modus"))
	_ = cmd.RegisterFlagCompletionFunc("color", fixed("auto", "always", "never"))
	_ = cmd.RegisterFlagCompletionFunc("notify", fixed("off", "bell", "osc"))
	return cmd
}

// tui checks the choices and runs the terminal.
func (a *app) tui(cmd *cobra.Command, o TerminalOptions) error {
	if err := oneOf("color", o.Color, "auto", "always", "never"); err != nil {
		return err
	}
	if o.Theme != "" {
		if err := oneOf("theme", o.Theme, "ansi", "dark", "light", "modus"); err != nil {
			return err
		}
	}
	if o.Notify != "" {
		if err := oneOf("notify", o.Notify, "off", "bell", "osc"); err != nil {
			return err
		}
	}
	if a.asJSON() {
		return usagef("pml tui is for people; programs read the same with pml workflows ls --json and pml events --follow --json").
			WithNext("pml", "events", "--follow", "--json")
	}
	o.PlainBy = a.plainBy(o.Plain)
	o.Plain = o.PlainBy != ""
	if !o.Plain && (!a.StdinTTY || !a.StdoutTTY) {
		return usagef("pml tui needs a terminal; without one use --plain, or pml approvals ls").WithNext("pml", "approvals", "ls")
	}
	if a.flags.noColor {
		o.Color = "never"
	}
	if a.Terminal == nil {
		return core.Errorf(core.CodeInternal, "this build of pml has no terminal")
	}
	level, _ := a.Environ("PML_LOG")
	o.OpenOptions = OpenOptions{Home: a.flags.home, Server: a.flags.server, Log: level}
	left, err := a.Terminal(cmd.Context(), o)
	for _, id := range left {
		a.say("run %s is not finished; it goes on with: pml continue %s", id.Short(), id.Short())
	}
	return err
}

// plainBy is what asks for a dialogue of lines, empty where nothing does.
func (a *app) plainBy(flag bool) string {
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

// printKeys prints the actions of the terminal with their keys.
func (a *app) printKeys() error {
	if a.asJSON() {
		return a.printJSON(keys.Schema())
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
	return printList(a, api.Page[row]{Items: rows}, "no actions", []column[row]{
		{title: "ACTION", get: func(r row) string { return r.Action }},
		{title: "KEYS", get: func(r row) string { return r.Keys }},
		{title: "WHAT", get: func(r row) string { return r.What }},
	})
}
