package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// LocalServer is a server seen from outside of it.
type LocalServer interface {
	// Status asks the server what it does; nil when there is none.
	Status(ctx context.Context) (*ServerState, error)
	// Stop asks it to stop, waits until it is gone, and returns what it said of
	// itself before; nil when there was none.
	Stop(ctx context.Context) (*ServerState, error)
	ServerKeys
}

// ServerKeys are the keys with which others call a server over TCP.
type ServerKeys interface {
	// AddKey makes a key and returns its token, which is kept nowhere.
	AddKey(ctx context.Context, name string) (token string, err error)
	Keys(ctx context.Context) ([]ServerKey, error)
	RemoveKey(ctx context.Context, name string) error
}

// ServerState is what a server says of itself, and what to know about it.
type ServerState struct {
	api.ServerStatus
	Warning string `json:"warning,omitempty"`
}

// ServerKey is a key without its token.
type ServerKey struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

func (a *app) serverCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:     "server",
		Short:   "The server of this machine: status, stop, keys",
		Long:    "Shows the server that runs here, stops it, and keeps the keys with which others call it over TCP. To run one: pml serve.",
		Example: "  pml server status\n  pml server stop\n  pml server key add ci",
	}, a.serverStatusCmd(), a.serverStopCmd(), a.serverKeyCmd())
}

// localServer gives the server that the flags mean.
func (a *app) localServer() (LocalServer, error) {
	if a.LocalServer == nil {
		return nil, usagef("this build of pml has no server")
	}
	return a.LocalServer(OpenOptions{Home: a.flags.home, Server: a.flags.server})
}

func (a *app) serverStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the server and what it does",
		Long: `Shows the server of this machine, or the one that --server, PML_SERVER or
server.url names. Where none runs the exit code is 5. With --json: running says
whether one does, and server what it says of itself; server.pid is its process,
which a server elsewhere does not tell.`,
		Example: "  pml server status\n  pml server status --json",
		Args:    maxArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serverStatus(cmd.Context()) },
	}
}

func (a *app) serverStatus(ctx context.Context) error {
	s, err := a.localServer()
	if err != nil {
		return err
	}
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		if err := a.print(map[string]bool{"running": false}, line("no server runs")); err != nil {
			return err
		}
		return exitStatus(exitUnreachable)
	}
	return a.print(map[string]any{"running": true, "server": st}, func(w *strings.Builder) { a.writeServer(w, st) })
}

func (a *app) writeServer(w *strings.Builder, st *ServerState) {
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
		row("server", "process "+fmt.Sprint(st.PID)+", "+how)
	}
	row("version", st.Version)
	row("started", stamp(st.StartedAt)+" ("+a.ago(st.StartedAt)+" ago)")
	row("socket", st.Socket)
	row("url", st.URL)
	row("store", st.Store)
	row("workflows", fmt.Sprintf("%d running, %d waiting", st.Running, st.Waiting))
	row("approvals", fmt.Sprintf("%d waiting", st.Approvals))
	row("readers", fmt.Sprint(st.Readers))
	row("warning", st.Warning)
}

func (a *app) serverStopCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "stop",
		Short:   "Stop the server",
		Long:    "Asks the server of this machine to stop and waits until it is gone. What runs is parked and goes on with the next server; nothing is lost.",
		Example: "  pml server stop",
		Args:    maxArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serverStop(cmd.Context()) },
	}
}

func (a *app) serverStop(ctx context.Context) error {
	s, err := a.localServer()
	if err != nil {
		return err
	}
	st, err := s.Stop(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return a.print(map[string]bool{"stopped": false}, line("no server runs"))
	}
	return a.print(map[string]any{"stopped": true, "server": st}, func(w *strings.Builder) {
		fmt.Fprintf(w, "stopped (process %d)\n", st.PID)
		if n := st.Running + st.Waiting; n > 0 {
			fmt.Fprintf(w, "%d running and %d waiting workflows are kept; they go on with the next server\n", st.Running, st.Waiting)
		}
	})
}

func (a *app) serverKeyCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:     "key",
		Short:   "Keys with which others call the server over TCP",
		Long:    "Makes, lists and removes keys. A workflow belongs to the key that started it; others do not see it. Only hashes are kept.",
		Example: "  pml server key add ci\n  pml server key ls\n  pml server key rm ci",
	}, a.serverKeyAddCmd(), a.serverKeyLsCmd(), a.serverKeyRmCmd())
}

func (a *app) serverKeyAddCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "add NAME",
		Short:   "Make a key and print it",
		Long:    "Makes a key and prints it, this once. Callers send it as a bearer token; pml takes it from PML_API_KEY.",
		Example: "  pml server key add ci > ci.key",
		Args:    exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.localServer()
			if err != nil {
				return err
			}
			token, err := s.AddKey(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(map[string]string{"name": args[0], "key": token}, line("%s", token))
		},
	}
}

func (a *app) serverKeyLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the keys",
		Long:    "Lists the names of the keys and when they were made.",
		Example: "  pml server key ls --json",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.localServer()
			if err != nil {
				return err
			}
			keys, err := s.Keys(cmd.Context())
			if err != nil {
				return err
			}
			return printList(a, api.Page[ServerKey]{Items: keys}, "no keys: nobody can call a server over TCP", []column[ServerKey]{
				{title: "NAME", get: func(k ServerKey) string { return k.Name }},
				{title: "CREATED", get: func(k ServerKey) string { return stamp(k.CreatedAt) }},
			})
		},
	}
}

func (a *app) serverKeyRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a key",
		Long:    "Removes a key: who has it is refused from the next request on. The workflows of its owner stay.",
		Example: "  pml server key rm ci",
		Args:    exactArgs("NAME"),

		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.localServer()
			if err != nil {
				return err
			}
			if err := s.RemoveKey(cmd.Context(), args[0]); err != nil {
				return noSuchKey(err)
			}
			return a.print(map[string]string{"removed": args[0]}, line("removed %s", args[0]))
		},
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
