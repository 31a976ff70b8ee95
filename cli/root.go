package cli

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/core"
)

// The groups in which help lists the commands.
const (
	groupRun   = "run"
	groupWatch = "watch"
	groupSetup = "setup"
)

// root builds the whole tree of commands. Building it opens nothing.
func (a *app) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "pml",
		Short: "Run code and task graphs on MCP tools, durably, stopping for approvals",
		Long: `pml runs scripts and task graphs (DAGs) that call tools of MCP servers. Every
run is kept: it stops where a person has to decide, and goes on from where it
was, whatever happened to the process in between.`,
		Example:       "  pml init\n  pml execute script.ts\n  pml approvals ls\n  pml continue 7f3a91c2 --approve",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version {
				return a.printVersion()
			}
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(a.stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagError)
	a.globalFlags(root.PersistentFlags())
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	_ = root.RegisterFlagCompletionFunc("output", fixed(formats...))
	_ = root.RegisterFlagCompletionFunc("server", cobra.NoFileCompletions)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run and decide:"},
		&cobra.Group{ID: groupWatch, Title: "Look:"},
		&cobra.Group{ID: groupSetup, Title: "Set up:"},
	)
	addGroup(root, groupRun, a.executeCmd(), a.continueCmd(), a.retryCmd(), a.abortCmd(), a.replanCmd(), a.approvalsCmd())
	addGroup(root, groupWatch, a.tuiCmd(), a.planCmd(), a.workflowsCmd(), a.toolsCmd(), a.eventsCmd(), a.auditCmd())
	addGroup(root, groupSetup, a.initCmd(), a.serversCmd(), a.trustCmd(), a.serveCmd(), a.serverCmd(), a.stdioCmd(), a.doctorCmd(), a.configCmd(), a.completionCmd(), a.versionCmd())
	root.AddCommand(a.manCmd())
	root.SetHelpCommand(helpCmd())
	return root
}

func (a *app) globalFlags(f *pflag.FlagSet) {
	f.StringVarP(&a.flags.output, "output", "o", formatTable, "output format: "+strings.Join(formats, ", "))
	f.BoolVar(&a.flags.json, "json", false, "the same as -o json")
	f.StringVar(&a.flags.server, "server", "", "URL of a pml server: http://…, https://…, or unix:///path of a socket")
	f.StringVar(&a.flags.home, "home", "", "pml's own folder (default ~/.pml)")
	f.BoolVar(&a.flags.noColor, "no-color", false, "no colour")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "no progress on stderr")
	f.DurationVar(&a.flags.timeout, "timeout", 0, "stop waiting after this long (exit 124); the workflow goes on")
}

// checkGlobals checks what flags of a known type can still get wrong.
func (a *app) checkGlobals() error {
	known := false
	for _, f := range formats {
		known = known || f == a.flags.output
	}
	if !known {
		return usagef("unknown output format %q%s; use one of %s", a.flags.output, core.Suggest(a.flags.output, formats), strings.Join(formats, ", "))
	}
	if a.flags.timeout < 0 {
		return usagef("--timeout %s is negative", a.flags.timeout)
	}
	return nil
}

func addGroup(root *cobra.Command, id string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// group makes a command that only holds others.
func group(c *cobra.Command, children ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(childNames(cmd), ", ")).
			WithNext(append(strings.Fields(cmd.CommandPath()), "--help")...)
	}
	c.AddCommand(children...)
	return c
}

func childNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

func unknownCommand(cmd *cobra.Command, name string) error {
	names := childNames(cmd)
	for _, c := range cmd.Commands() {
		names = append(names, c.Aliases...)
	}
	next := append(strings.Fields(cmd.CommandPath()), "--help")
	return usagef("unknown command %q for %s%s", core.Visible(name, 80, false), cmd.CommandPath(), core.Suggest(name, names)).WithNext(next...)
}

// flagError turns an error of the flag parser into one of ours, with the
// nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	next := append(strings.Fields(cmd.CommandPath()), "--help")
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return core.Errorf(core.CodeUsage, "%w", err).WithNext(next...)
	}
	if name := missing.GetSpecifiedName(); len(missing.GetSpecifiedShortnames()) == 0 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return usagef("unknown flag --%s for %s%s", core.Visible(name, 80, false), cmd.CommandPath(), core.Suggest("--"+name, names)).WithNext(next...)
	}
	return core.Errorf(core.CodeUsage, "%w", err).WithNext(next...)
}

// usagef makes an error of usage: nothing was opened or sent.
func usagef(format string, args ...any) *core.Error {
	return core.Errorf(core.CodeUsage, format, args...)
}

// exactArgs wants these arguments, by the names that help shows.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		next := append(strings.Fields(cmd.CommandPath()), "--help")
		if len(args) < len(names) {
			return usagef("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and ")).WithNext(next...)
		}
		return noMore(cmd, args, len(names))
	}
}

// maxArgs wants at most n arguments.
func maxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return noMore(cmd, args, n) }
}

func noMore(cmd *cobra.Command, args []string, n int) error {
	if len(args) > n {
		next := append(strings.Fields(cmd.CommandPath()), "--help")
		return usagef("unexpected argument %q for %s", core.Visible(args[n], 80, false), cmd.CommandPath()).WithNext(next...)
	}
	return nil
}

// oneOf checks the value of a flag against what it may be.
func oneOf(flag, value string, allowed ...string) error {
	for _, v := range allowed {
		if v == value {
			return nil
		}
	}
	return usagef("--%s %q is not one of %s%s", flag, core.Visible(value, 80, false), strings.Join(allowed, ", "), core.Suggest(value, allowed))
}

// notEmpty refuses flags that were given without a value, as an unset variable
// of a shell gives them: leaving the flag out means something else.
func notEmpty(cmd *cobra.Command, names ...string) error {
	for _, n := range names {
		f := cmd.Flags().Lookup(n)
		if !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			return usagef("--%s is empty; give it a value or leave it out", n)
		}
	}
	return nil
}

// parseSince reads a point in time: RFC 3339, or how long ago.
func (a *app) parseSince(flag, text string) (time.Time, error) {
	if d, err := parseAge(text); err == nil {
		return a.now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("--%s %q is neither a duration (36h, 7d) nor a time (2026-01-31T12:00:00Z)", flag, core.Visible(text, 80, false))
	}
	return t, nil
}

// parseAge reads a duration that may also count days (7d).
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		return d * 24, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	return d, err
}
