package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type eventsOptions struct {
	run    string
	id     core.ID
	since  api.Since
	types  []string
	follow bool
	// logs prints what was logged, and nothing around it.
	logs bool
	// printed counts the events that are printed; nil: nobody asks.
	printed *int
}

// EventsCmd is pml events.
func EventsCmd(a *app.App) *cobra.Command {
	var o eventsOptions
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happened; follow what happens",
		Long: `Prints events in order, of all runs or of one. --follow keeps printing new ones
until you stop it, also while the server is away. --json prints one object per
line, like -o jsonl.

--since skips events up to and including the one you name. This machine and the
server number their events separately, so give a number for each, as the fields
side and seq of the events have them: --since client:12,server:340. A side that
you leave out begins at 0. One number is enough with --run, or if there is
no server.`,
		Example: `  pml events --follow
  pml events --follow --since client:12,server:340
  pml events --run 7f3a91c2 --type task_error --since 120 -o jsonl`,
		Args: app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := app.NotEmpty(cmd, "run", "since"); err != nil {
				return err
			}
			var err error
			if o.since, err = app.ParseNumbers(since); err != nil {
				return err
			}
			return runEvents(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "0", "only events after this one: its number, or client:N,server:N")
	f.SetNormalizeFunc(runFlag)
	f.StringVar(&o.run, "run", "", "only events of this run: its ID or name (--workflow is the same)")
	f.StringSliceVar(&o.types, "type", nil, "only events of this type")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on as more happens")
	_ = cmd.RegisterFlagCompletionFunc("type", app.CompleteFixed(typeNames()...))
	_ = cmd.RegisterFlagCompletionFunc("run", completeRun(a))
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
	return cmd
}

func runEvents(ctx context.Context, a *app.App, o eventsOptions) error {
	for _, t := range o.types {
		if !slices.Contains(core.EventTypes, core.EventType(t)) {
			return app.OneOf("type", t, typeNames()...)
		}
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	if o.run != "" {
		if o.id, err = findRun(ctx, a, b, o.run); err != nil {
			return err
		}
	}
	return events(ctx, a, b, o)
}

func typeNames() []string {
	names := make([]string, len(core.EventTypes))
	for i, e := range core.EventTypes {
		names[i] = string(e)
	}
	return names
}

// logs prints what a run has logged, or tells a person that it has logged nothing.
func logs(ctx context.Context, a *app.App, b api.Workflows, id core.ID, follow bool) error {
	n := 0
	err := events(ctx, a, b, eventsOptions{id: id, follow: follow, logs: true, printed: &n})
	if err == nil && n == 0 {
		a.Note("the run %s has logged nothing", id.Short())
	}
	return err
}

func events(ctx context.Context, a *app.App, b api.Workflows, o eventsOptions) error {
	a.WarnAtOnce()
	return b.Events(ctx, o.id, o.since, o.follow, func(e core.Event) error {
		switch {
		case len(o.types) > 0 && !slices.Contains(o.types, string(e.Type)):
			return nil
		case o.logs && e.Type != core.EventTaskLog && e.Type != core.EventTaskWarning:
			return nil
		}
		if o.printed != nil {
			*o.printed++
		}
		if o.logs && a.Human() {
			return a.Write(core.Visible(e.Message, 0, false) + "\n")
		}
		return printEvent(a, e)
	})
}

// printEvent writes an event on one line; a stream of JSON values has one a
// line whichever JSON format was asked for.
func printEvent(a *app.App, e core.Event) error {
	switch a.Format() {
	case app.FormatJSON, app.FormatJSONL:
		return a.Encode(e, app.FormatJSONL)
	case app.FormatYAML:
		if err := a.Write("---\n"); err != nil {
			return err
		}
		return a.Encode(e, app.FormatYAML)
	}
	var about []string
	if e.Side != "" { // of two halves, each with numbers of its own
		about = append(about, string(e.Side))
	}
	if e.Layer != nil {
		about = append(about, fmt.Sprintf("layer %d", *e.Layer+1))
	}
	for _, s := range []string{e.RunName, e.TaskID, e.Tool, e.OwnMessage()} {
		if s != "" {
			about = append(about, s)
		}
	}
	if e.DurationMS > 0 {
		about = append(about, layout.Millis(e.DurationMS))
	}
	if e.Error != nil {
		about = append(about, string(e.Error.Code)+": "+core.ShownAbort(e.Error.Message))
	}
	text := fmt.Sprintf("%6d  %s  %s  %-18s  %s", e.Seq, e.At.UTC().Format("15:04:05.000"), e.RunID.Short(), e.Type,
		core.Visible(strings.Join(about, "  "), 0, false))
	return a.Write(layout.Cut(strings.TrimRight(text, " "), a.LineLimit()) + "\n")
}

// runFlag lets --workflow, its older name, stand for --run.
func runFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "workflow" {
		name = "run"
	}
	return pflag.NormalizedName(name)
}
