package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func modelsCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "models",
		Aliases: []string{"model"},
		Short:   "The language models that are configured",
		Long: `Lists the language models that "models" of .pml.json and of config.json in pml's
home describe, and checks one with a call. Without any, those are there whose
key is set: ANTHROPIC_API_KEY, OPENAI_API_KEY. Models of a workspace count once
it is trusted, because what is said to a model goes where its base_url says.`,
		Example: "  pml models ls\n  pml models check\n  pml models check local --tools",
	}, modelsLsCmd(a), modelsCheckCmd(a))
}

func modelsLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the models; call none",
		Long: `Lists the models with what is known of them without a call: where they are,
whether their key is set, and what a million tokens cost in dollars, sent and
answered. A price that pml does not know is -, never 0. * is the default.`,
		Example: "  pml models ls\n  pml models ls -o wide\n  pml models ls --json | jq -r '.items[] | select(.state == \"ready\").name'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			list, err := b.Models(ctx)
			if err != nil {
				return err
			}
			if err := printModels(a, list); err != nil {
				return err
			}
			sayModels(a, list)
			return nil
		}),
	}
}

func printModels(a *app.App, list []api.Model) error {
	return app.PrintList(a, api.Page[api.Model]{Items: list}, "no models: set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment or in .env, or describe models in \"models\" of .pml.json", []app.Column[api.Model]{
		{Title: "NAME", Get: func(m api.Model) string {
			if m.Default {
				return m.Name + " *"
			}
			return m.Name
		}, Style: app.Always[api.Model](layout.Ident)},
		{Title: "STATE", Get: func(m api.Model) string { return m.State }, Style: func(m api.Model) layout.Style {
			if m.State == api.ModelReady {
				return layout.Good
			}
			return layout.Bad
		}},
		{Title: "MODEL", Get: func(m api.Model) string { return dash(m.Model) }, Flex: true},
		{Title: "IN/OUT $", Get: priceOf},
		{Title: "URL", Get: func(m api.Model) string { return dash(m.BaseURL) }, Drop: 1},
		{Title: "FROM", Get: func(m api.Model) string { return m.From }, Drop: 2, Style: app.Always[api.Model](layout.Dim)},
		{Title: "PROTOCOL", Wide: true, Get: func(m api.Model) string { return m.Protocol }},
		{Title: "CACHE $", Wide: true, Get: func(m api.Model) string {
			if m.Price == nil {
				return "-"
			}
			return dollars(m.Price.CacheRead) + "/" + dollars(m.Price.CacheWrite)
		}},
		{Title: "PRICES OF", Wide: true, Get: func(m api.Model) string {
			if m.Price == nil {
				return "-"
			}
			return dash(m.Price.AsOf)
		}},
		{Title: "FILE", Wide: true, Get: func(m api.Model) string { return dash(m.File) }},
	})
}

// sayModels says what keeps models from being called.
func sayModels(a *app.App, list []api.Model) {
	untrusted := false
	for _, m := range list {
		name := core.Visible(m.Name, 80, false)
		switch m.State {
		case api.ModelNoKey:
			a.Note("%s: set %s in the environment or in .env", name, core.Visible(strings.Join(orKey(m.Missing), ", "), 200, false))
		case api.ModelInvalid:
			a.Note("%s: %s", name, core.Visible(m.Error, 1000, true))
		case api.ModelNotTrusted:
			untrusted = true
		}
	}
	if untrusted {
		a.Note("next: pml trust")
	}
}

// orKey names the place of a key that no variable is named for.
func orKey(missing []string) []string {
	if len(missing) == 0 {
		return []string{"a variable that api_key names"}
	}
	return missing
}

func priceOf(m api.Model) string {
	if m.Price == nil {
		return "-"
	}
	return dollars(m.Price.Input) + "/" + dollars(m.Price.Output)
}

func dollars(p *float64) string {
	if p == nil {
		return "-"
	}
	return strconv.FormatFloat(*p, 'f', -1, 64)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func modelsCheckCmd(a *app.App) *cobra.Command {
	var tools bool
	cmd := &cobra.Command{
		Use:   "check [NAME]",
		Short: "Call a model once, and say how it went",
		Long: `Asks a model, the default one without NAME, for one word, and shows what came,
how long it took and what it cost. It is sent nothing of the workspace. With
--tools a second call gives it the result of a tool that it was told to call.
Nothing is repeated: an answer such as "too many requests" is shown as it came.`,
		Example: "  pml models check\n  pml models check local --tools\n  pml models check claude --json | jq .usd",
		Args:    app.MaxArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeModels(cmd.Context(), a, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			busy := a.Busy("calling the model")
			c, err := b.CheckModel(ctx, name, tools)
			busy.End()
			if err != nil {
				return err
			}
			if err := a.Print(c, func(w *strings.Builder) { writeModelCheck(w, c) }); err != nil {
				return err
			}
			if c.Tools != nil && !*c.Tools {
				return app.ExitStatus(app.ExitFailed)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&tools, "tools", false, "check that it calls a tool and uses the result: two calls")
	return cmd
}

func completeModels(ctx context.Context, a *app.App, args []string) (names []string) {
	b, err := a.Backend(ctx)
	if err != nil || len(args) > 0 {
		return nil
	}
	list, err := b.Models(ctx)
	if err != nil {
		return nil
	}
	for _, m := range list {
		names = append(names, core.Visible(m.Name, 0, false)+"\t"+core.Visible(m.Model, 60, false))
	}
	return names
}

func writeModelCheck(w *strings.Builder, c api.ModelCheck) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-8s %s\n", name, core.Visible(fmt.Sprintf(format, args...), 300, false))
	}
	fmt.Fprintf(w, "%s answers\n", core.Visible(c.Name, 80, false))
	row("model", "%s", dash(c.Model))
	row("answer", "%s", dash(strings.Join(strings.Fields(c.Answer), " ")))
	row("stop", "%s (%s)", c.Stop, c.StopText)
	switch {
	case c.Tools != nil && *c.Tools:
		row("tools", "work: it called one and used the result")
	case c.Tools != nil:
		row("tools", "do not work: %s", c.Problem)
	}
	if c.Usage == nil {
		row("tokens", "the provider has not said; at most %d were expected to be sent", c.Estimate.Input+c.Estimate.CacheWrite)
	} else {
		row("tokens", "%d sent, %d answered", c.Usage.Input+c.Usage.CacheRead+c.Usage.CacheWrite, c.Usage.Output)
	}
	switch {
	case c.USD != nil:
		row("cost", "$%.6f", *c.USD)
	case c.WorstUSD != nil:
		row("cost", "not known; at most $%.6f for a call was expected", *c.WorstUSD)
	default:
		row("cost", "not known: pml has no price for it (price in its entry of models)")
	}
	row("time", "%.1f s, first text after %.1f s", float64(c.TotalMS)/1000, float64(c.FirstMS)/1000)
	if len(c.RequestIDs) > 0 {
		row("request", "%s", strings.Join(c.RequestIDs, ", "))
	}
}
