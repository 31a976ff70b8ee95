package cli

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// ServeOptions are the choices of a server.
type ServeOptions struct {
	// Home and Log are as in OpenOptions.
	Home, Log string
	// Socket is where it listens for this user, TCP an address for others, who
	// need a key. Empty: the usual socket, no address.
	Socket, TCP string
	// Store is the URL of a PostgreSQL database; empty for this home's own.
	Store string
	// Idle is how long it stays with nothing to do; 0: until it is stopped.
	Idle time.Duration
	// Hosts and Origins are names and origins that requests over TCP may carry.
	Hosts, Origins []string
	// Metrics are the names of keys that may read /metrics over TCP.
	Metrics []string
	// JSONLog writes the log as JSON.
	JSONLog bool
	// ReadyFD is the descriptor of a starter that waits for it; 0 by hand.
	ReadyFD int
	// Ready is told where it listens, once it does.
	Ready func(addresses []string)
}

func (a *app) serveCmd() *cobra.Command {
	o := ServeOptions{}
	var listen []string
	var format string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server: runs that outlive their callers, HTTP, events, MCP",
		Long: `Runs a server until it is stopped. It listens on a socket that only this user
may open, and with --listen HOST:PORT also on an address, for callers with a key
(pml server key add). It takes up what an earlier server left. Without --store it
keeps its runs in server.db of pml's own folder; any number of servers may share a
PostgreSQL database, which PML_STORE names as well. One that pml had started by
itself leaves, and this one goes on with its runs.

Agents find MCP at /mcp, with pml's tools and with those that "expose" of .pml.json
names. Callers on the socket name their workspace; those on an address use that of
the folder in which the server was started, or of PML_WORKSPACE. The log is on
stderr; PML_LOG is debug, info (as without it), warn or error.`,
		Example: `  pml serve
  pml server key add laptop && pml serve --listen 127.0.0.1:7465
  PML_WORKSPACE=/srv/project PML_LOG=warn pml serve --log-format json
  pml serve --store postgres://pml@db/pml --listen 0.0.0.0:7465 --allow-host pml.example.org`,
		Args: maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "listen", "store", "allow-host", "allow-origin", "allow-metrics", "log-format"); err != nil {
				return err
			}
			if err := o.listen(listen); err != nil {
				return err
			}
			if err := oneOf("log-format", format, "text", "json"); err != nil {
				return err
			}
			if o.Idle < 0 {
				return usagef("--idle %s is negative", o.Idle)
			}
			o.JSONLog = format == "json"
			return a.serve(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&listen, "listen", nil, "an address HOST:PORT, or the path of the socket (default: the socket in pml's folder)")
	f.StringVar(&o.Store, "store", "", "postgres://… for a database of several servers")
	f.DurationVar(&o.Idle, "idle", 0, "leave after this long with nothing to do (0: never)")
	f.StringSliceVar(&o.Hosts, "allow-host", nil, "a name by which callers over TCP may address it")
	f.StringSliceVar(&o.Origins, "allow-origin", nil, "an origin whose pages may call it over TCP")
	f.StringSliceVar(&o.Metrics, "allow-metrics", nil, "the name of a key that may read /metrics over TCP")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.IntVar(&o.ReadyFD, "ready-fd", 0, "for pml itself: the descriptor of the starter")
	_ = f.MarkHidden("ready-fd")
	_ = cmd.RegisterFlagCompletionFunc("log-format", fixed("text", "json"))
	_ = cmd.RegisterFlagCompletionFunc("allow-metrics", a.completeKeys)
	for _, name := range []string{"store", "idle", "allow-host", "allow-origin"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// listen sorts what --listen names into a socket and an address.
func (o *ServeOptions) listen(list []string) error {
	for _, s := range list {
		s = strings.TrimPrefix(s, "unix://")
		into := &o.TCP
		switch _, _, err := net.SplitHostPort(s); {
		case filepath.IsAbs(s):
			into = &o.Socket
		case err != nil:
			return usagef("--listen %q is neither HOST:PORT nor the absolute path of a socket", s)
		}
		if *into != "" {
			return usagef("--listen %q: there is one socket and one address; %s was given already", s, *into)
		}
		*into = s
	}
	return nil
}

func (a *app) serve(ctx context.Context, o ServeOptions) error {
	if a.Serve == nil {
		return usagef("this build of pml has no server")
	}
	o.Home = a.flags.home
	o.Log, _ = a.Environ("PML_LOG")
	if o.Store == "" {
		o.Store, _ = a.Environ("PML_STORE")
	}
	if o.ReadyFD > 0 {
		return a.Serve(ctx, o)
	}
	o.Ready = func(addresses []string) {
		for _, s := range addresses {
			a.note("listening on %s", s)
		}
	}
	return a.Serve(ctx, o)
}
