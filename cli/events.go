package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type eventsOptions struct {
	workflow string
	id       core.ID
	since    api.Since
	types    []string
	follow   bool
	// logs prints what was logged, and nothing around it.
	logs bool
}

func (a *app) eventsCmd() *cobra.Command {
	var o eventsOptions
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happened; follow what happens",
		Long: `Prints events in their order, of all runs or one; with --follow it goes on until
it is stopped, also while the server is away. With --json one object a line is
printed, as with -o jsonl.

--since leaves out what came up to an event. This machine and the server number
their events each, so it takes a number of either, by the side and the seq that
events have: --since client:12,server:340; one that is left out begins at 0. A
number alone is enough with --workflow, or where there is no server.`,
		Example: `  pml events --follow
  pml events --follow --since client:12,server:340
  pml events --workflow 7f3a91c2 --type task_error --since 120 -o jsonl`,
		Args: maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "workflow", "since"); err != nil {
				return err
			}
			var err error
			if o.since, err = parseNumbers(since); err != nil {
				return err
			}
			return a.runEvents(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "0", "only events after this one: its number, or client:N,server:N")
	f.StringVar(&o.workflow, "workflow", "", "only events of this run")
	f.StringSliceVar(&o.types, "type", nil, "only events of this type")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on as more happens")
	_ = cmd.RegisterFlagCompletionFunc("type", completeTypes)
	_ = cmd.RegisterFlagCompletionFunc("workflow", a.completeRun)
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions)
	return cmd
}

// parseNumbers reads what --since names: the number of an event, or one of each
// side.
func parseNumbers(text string) (since api.Since, err error) {
	wrong := usagef("--since %q is neither the number of an event nor client:N,server:N", core.Visible(text, 80, false))
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

func (a *app) runEvents(ctx context.Context, o eventsOptions) error {
	for _, t := range o.types {
		if !slices.Contains(core.EventTypes, core.EventType(t)) {
			names := make([]string, len(core.EventTypes))
			for i, e := range core.EventTypes {
				names[i] = string(e)
			}
			return oneOf("type", t, names...)
		}
	}
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	if o.workflow != "" {
		if o.id, err = a.resolveRun(ctx, b, o.workflow); err != nil {
			return err
		}
	}
	return a.events(ctx, b, o)
}

func (a *app) events(ctx context.Context, b Journal, o eventsOptions) error {
	a.warnAtOnce()
	return b.Events(ctx, o.id, o.since, o.follow, func(e core.Event) error {
		switch {
		case len(o.types) > 0 && !slices.Contains(o.types, string(e.Type)):
			return nil
		case o.logs && e.Type != core.EventTaskLog && e.Type != core.EventTaskWarning:
			return nil
		case o.logs && a.human():
			return a.write(core.Visible(e.Message, 0, false) + "\n")
		}
		return a.printEvent(e)
	})
}

// printEvent writes an event on one line; a stream of JSON values has one a
// line whichever JSON format was asked for.
func (a *app) printEvent(e core.Event) error {
	switch a.format() {
	case formatJSON, formatJSONL:
		return a.encode(e, formatJSONL)
	case formatYAML:
		if err := a.write("---\n"); err != nil {
			return err
		}
		return a.encode(e, formatYAML)
	}
	var about []string
	if e.Side != "" { // of two halves, each with numbers of its own
		about = append(about, string(e.Side))
	}
	if e.Layer != nil {
		about = append(about, fmt.Sprintf("layer %d", *e.Layer+1))
	}
	for _, s := range []string{e.TaskID, e.Tool, e.Message} {
		if s != "" {
			about = append(about, s)
		}
	}
	if e.DurationMS > 0 {
		about = append(about, millis(e.DurationMS))
	}
	if e.Error != nil {
		about = append(about, string(e.Error.Code)+": "+e.Error.Message)
	}
	text := fmt.Sprintf("%6d  %s  %s  %-18s  %s", e.Seq, e.At.UTC().Format("15:04:05.000"), e.RunID.Short(), e.Type,
		core.Visible(strings.Join(about, "  "), 0, false))
	return a.write(cut(strings.TrimRight(text, " "), a.lineLimit()) + "\n")
}
