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

func serverCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "server",
		Short:   "The server of this machine: status, stop, keys",
		Long:    "Shows the server that runs here, stops it, and keeps the keys with which others call it over TCP. To run one: pml serve.",
		Example: "  pml server status\n  pml server stop\n  pml server key add ci",
	}, serverStatusCmd(a), serverStopCmd(a), serverKeyCmd(a))
}

// withServer is what a command does to the server that the flags mean.
func withServer(a *app.App, do func(ctx context.Context, s app.LocalServer, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := localServer(a)
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	}
}

// localServer gives the server that the flags mean.
func localServer(a *app.App) (app.LocalServer, error) {
	if a.LocalServer == nil {
		return nil, app.Usagef("this build of pml has no server")
	}
	return a.LocalServer(app.OpenOptions{Home: a.Flags.Home, Server: a.Flags.Server})
}

func serverStatusCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the server and what it does",
		Long: `Shows the server of this machine, or the one that --server, PML_SERVER or
server.url names. Where none runs the exit code is 5. With --json: running says
whether one does, and server what it says of itself; server.pid is its process,
which a server elsewhere does not tell.`,
		Example: "  pml server status\n  pml server status --json",
		Args:    app.MaxArgs(0),
		RunE:    withServer(a, func(ctx context.Context, s app.LocalServer, _ []string) error { return serverStatus(ctx, a, s) }),
	}
}

func serverStatus(ctx context.Context, a *app.App, s app.LocalServer) error {
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		if err := a.Print(map[string]bool{"running": false}, app.Line("no server runs")); err != nil {
			return err
		}
		return app.ExitStatus(app.ExitUnreachable)
	}
	return a.Print(map[string]any{"running": true, "server": st}, func(w *strings.Builder) { writeServer(a, w, st) })
}

func writeServer(a *app.App, w *strings.Builder, st *app.ServerState) {
	row := func(k, v string) {
		if v != "" {
			fmt.Fprintf(w, "%-10s %s\n", k, core.Visible(v, 0, false))
		}
	}
	how := "by hand"
	if st.Background {
		how = "in the background"
	}
	if st.PID > 0 { // a key is not told
		row("server", "process "+strconv.Itoa(st.PID)+", "+how)
	}
	row("version", st.Version)
	row("started", layout.Stamp(st.StartedAt)+" ("+layout.Ago(a.Now(), st.StartedAt)+" ago)")
	row("socket", st.Socket)
	row("url", st.URL)
	row("store", st.Store)
	row("runs", fmt.Sprintf("%d running, %d waiting", st.Running, st.Waiting))
	row("approvals", fmt.Sprintf("%d waiting", st.Approvals))
	row("readers", strconv.Itoa(st.Readers)+" (programs that read its events now, such as pml tui)")
	row("warning", st.Warning)
}

func serverStopCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "stop",
		Short:   "Stop the server",
		Long:    "Asks the server of this machine to stop and waits until it is gone. What runs is parked and goes on with the next server, which the next command that asks for runs starts; nothing is lost. To hold calls, use pml halt.",
		Example: "  pml server stop",
		Args:    app.MaxArgs(0),
		RunE:    withServer(a, func(ctx context.Context, s app.LocalServer, _ []string) error { return serverStop(ctx, a, s) }),
	}
}

func serverStop(ctx context.Context, a *app.App, s app.LocalServer) error {
	st, err := s.Stop(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return a.Print(map[string]bool{"stopped": false}, app.Line("no server runs"))
	}
	return a.Print(map[string]any{"stopped": true, "server": st}, func(w *strings.Builder) {
		fmt.Fprintf(w, "stopped (process %d)\n", st.PID)
		if n := st.Running + st.Waiting; n > 0 {
			fmt.Fprintf(w, "%d running and %d waiting runs are kept; they go on with the next server\n", st.Running, st.Waiting)
		}
	})
}

func serverKeyCmd(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "key",
		Aliases: []string{"keys"},
		Short:   "Keys with which others call the server over TCP",
		Long:    "Makes, lists and removes keys. A run belongs to the key that started it; others do not see it. Only hashes are kept.",
		Example: "  pml server key add ci\n  pml server key ls\n  pml server key rm ci",
	}, serverKeyAddCmd(a), serverKeyLsCmd(a), serverKeyRmCmd(a))
}

func serverKeyAddCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "add NAME",
		Short:   "Make a key and print it",
		Long:    "Makes a key and prints it, this once. Callers send it as a bearer token; pml takes it from PML_API_KEY.",
		Example: "  pml server key add ci > ci.key",
		Args:    app.ExactArgs("NAME"),
		RunE: withServer(a, func(ctx context.Context, s app.LocalServer, args []string) error {
			token, err := s.AddKey(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Print(map[string]string{"name": args[0], "key": token}, app.Line("%s", token))
		}),
	}
}

func serverKeyLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the keys",
		Long:    "Lists the names of the keys and when they were made.",
		Example: "  pml server key ls --json",
		Args:    app.MaxArgs(0),
		RunE: withServer(a, func(ctx context.Context, s app.LocalServer, _ []string) error {
			keys, err := s.Keys(ctx)
			if err != nil {
				return err
			}
			return app.PrintList(a, api.Page[app.ServerKey]{Items: keys}, "no keys: nobody can call a server over TCP", []app.Column[app.ServerKey]{
				{Title: "NAME", Get: func(k app.ServerKey) string { return k.Name }},
				{Title: "CREATED", Get: func(k app.ServerKey) string { return layout.Stamp(k.CreatedAt) }},
			})
		}),
	}
}

func serverKeyRmCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a key",
		Long:    "Removes a key: who has it is refused from the next request on. The runs of its owner stay.",
		Example: "  pml server key rm ci",
		Args:    app.ExactArgs("NAME"),

		ValidArgsFunction: completeKeys(a),
		RunE: withServer(a, func(ctx context.Context, s app.LocalServer, args []string) error {
			if err := s.RemoveKey(ctx, args[0]); err != nil {
				return noSuchKey(err)
			}
			return a.Print(map[string]string{"removed": args[0]}, app.Line("removed %s", args[0]))
		}),
	}
}

// noSuchKey says of a key that is not there how to see those that are.
func noSuchKey(err error) error {
	e := core.AsError(err)
	if e.Code != core.CodeNotFound || len(e.Next) > 0 {
		return err
	}
	return e.WithNext("pml", "server", "key", "ls")
}

// completeKeys completes with the names of the server's keys, once each.
func completeKeys(a *app.App) app.Completer {
	return app.CompleteFirst(func(ctx context.Context) ([]string, error) {
		s, err := localServer(a)
		if err != nil {
			return nil, err
		}
		keys, err := s.Keys(ctx)
		var out []string
		for _, k := range keys {
			out = append(out, k.Name)
		}
		return out, err
	})
}
