package app

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Group makes a command that only holds others. By itself it lists, where one of them does.
func Group(c *cobra.Command, children ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		if ls, _, err := cmd.Find([]string{"ls"}); err == nil && ls != cmd {
			ls.SetContext(cmd.Context())
			return ls.RunE(ls, nil)
		}
		return Usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(ChildNames(cmd), ", ")).
			WithNext(append(strings.Fields(cmd.CommandPath()), "--help")...)
	}
	c.AddCommand(children...)
	return c
}

// ChildNames are the commands of a command that help shows.
func ChildNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// MeantBy are the commands that people mean by words of other programs.
var MeantBy = map[string][]string{
	"ls": {"pml", "workflows", "ls"}, "list": {"pml", "workflows", "ls"}, "ps": {"pml", "workflows", "ls"},
	"show": {"pml", "workflows", "show", "@latest"}, "watch": {"pml", "workflows", "watch", "@latest"},
	"logs": {"pml", "workflows", "logs", "@latest"}, "log": {"pml", "workflows", "logs", "@latest"},
	"install": {"pml", "servers", "install"}, "add": {"pml", "servers", "add", "--help"}, "check": {"pml", "servers", "check"},
	"update": {"pml", "servers", "update", "--help"}, "upgrade": {"pml", "servers", "update", "--help"},
	"reject": {"pml", "deny"}, "inbox": {"pml", "approve"}, "start": {"pml", "execute", "--help"}, "mcp": {"pml", "stdio"},
	"login": {"pml", "servers", "connect", "--help"}, "connect": {"pml", "servers", "connect", "--help"}, "remove": {"pml", "servers", "rm", "--help"},
}

// UnknownCommand is the error about a command that is not there.
func UnknownCommand(cmd *cobra.Command, name string) error {
	names := ChildNames(cmd)
	for _, c := range cmd.Commands() {
		names = append(names, c.Aliases...)
	}
	if meant, ok := MeantBy[name]; ok && !cmd.HasParent() {
		return Usagef("unknown command %q; did you mean %s?", name, strings.Join(meant, " ")).WithNext(meant...)
	}
	next := append(strings.Fields(cmd.CommandPath()), "--help")
	return Usagef("unknown command %q for %s%s", core.Visible(name, 80, false), cmd.CommandPath(), core.Suggest(name, names)).WithNext(next...)
}

// FlagError turns an error of the flag parser into one of ours, with the
// nearest flag.
func FlagError(cmd *cobra.Command, err error) error {
	next := append(strings.Fields(cmd.CommandPath()), "--help")
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return core.Errorf(core.CodeUsage, "%w", err).WithNext(next...)
	}
	if name := missing.GetSpecifiedName(); len(missing.GetSpecifiedShortnames()) == 0 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		var meant []string // of a group, the commands that have the flag
		for _, c := range cmd.Commands() {
			if c.Flags().Lookup(name) != nil {
				meant = append(meant, c.CommandPath()+" --"+core.Visible(name, 80, false))
			}
		}
		if len(meant) > 0 {
			return Usagef("unknown flag --%s for %s; did you mean %s?", core.Visible(name, 80, false), cmd.CommandPath(), strings.Join(meant, " or ")).WithNext(next...)
		}
		return Usagef("unknown flag --%s for %s%s", core.Visible(name, 80, false), cmd.CommandPath(), core.Suggest("--"+name, names)).WithNext(next...)
	}
	return core.Errorf(core.CodeUsage, "%w", err).WithNext(next...)
}

// Usagef makes an error of usage: nothing was opened or sent.
func Usagef(format string, args ...any) *core.Error {
	return core.Errorf(core.CodeUsage, format, args...)
}

// ExactArgs wants these arguments, by the names that help shows.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		next := append(strings.Fields(cmd.CommandPath()), "--help")
		if len(args) < len(names) {
			return Usagef("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and ")).WithNext(next...)
		}
		return NoMore(cmd, args, len(names))
	}
}

// MaxArgs wants at most n arguments.
func MaxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return NoMore(cmd, args, n) }
}

// NoMore refuses arguments after the first n.
func NoMore(cmd *cobra.Command, args []string, n int) error {
	if len(args) > n {
		next := append(strings.Fields(cmd.CommandPath()), "--help")
		return Usagef("unexpected argument %q for %s", core.Visible(args[n], 80, false), cmd.CommandPath()).WithNext(next...)
	}
	return nil
}

// OneOf checks the value of a flag against what it may be.
func OneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return Usagef("--%s %q is not one of %s%s", flag, core.Visible(value, 80, false), strings.Join(allowed, ", "), core.Suggest(value, allowed))
}

// NotEmpty refuses flags that were given without a value, as an unset variable
// of a shell gives them: leaving the flag out means something else. Flags that the
// command does not have are passed over.
func NotEmpty(cmd *cobra.Command, names ...string) error {
	for _, n := range names {
		f := cmd.Flags().Lookup(n)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			return Usagef("--%s is empty; give it a value or leave it out", n)
		}
	}
	return nil
}

// ParseSince reads a point in time: RFC 3339, or how long ago.
func (a *App) ParseSince(flag, text string) (time.Time, error) {
	if d, err := parseAge(text); err == nil {
		return a.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, Usagef("--%s %q is neither a duration (36h, 7d) nor a time (2026-01-31T12:00:00Z)", flag, core.Visible(text, 80, false))
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

// AtLeastOne wants one or more arguments.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("%s needs at least one %s", cmd.CommandPath(), name).
				WithNext(append(strings.Fields(cmd.CommandPath()), "--help")...)
		}
		return nil
	}
}

// ParseNumbers reads what --since names: the number of an event, or one of each
// side.
func ParseNumbers(text string) (since api.Since, err error) {
	wrong := Usagef("--since %q is neither the number of an event nor client:N,server:N", core.Visible(text, 80, false))
	into := map[core.Side]*int64{core.SideClient: &since.Client, core.SideServer: &since.Server}
	if !strings.Contains(text, ":") {
		into = map[core.Side]*int64{"": &since.Any}
	}
	for part := range strings.SplitSeq(text, ",") {
		side, number, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			side, number = "", side
		}
		n, err := strconv.ParseInt(number, 10, 64)
		v := into[core.Side(side)]
		if err != nil || n < 0 || v == nil {
			return api.Since{}, wrong
		}
		delete(into, core.Side(side)) // each once
		*v = n
	}
	return since, nil
}

// Completer completes an argument or the value of a flag.
type Completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// CompleteFixed completes from a list that is known beforehand.
func CompleteFixed(values ...string) Completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFirst completes the first argument with what list finds. Where that
// fails it completes nothing: a shell is no place for errors.
func CompleteFirst(list func(ctx context.Context) ([]string, error)) Completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, err := list(cmd.Context())
		if err != nil {
			out = nil
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
