package cli

import (
	"context"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
)

const serveExample = `  pml serve
  pml serve --listen 127.0.0.1:7465      # then pml pair phone
  pml server key add laptop && pml serve --listen 127.0.0.1:7465
  PML_WORKSPACE=/srv/project PML_LOG=warn pml serve --log-format json
  pml serve --listen 192.168.1.5:7465 --allow-host home.example.org \
    --tls-cert cert.pem --tls-key key.pem
  pml serve --store postgres://pml@db/pml --listen 0.0.0.0:7465 \
    --allow-host pml.example.org
  pml serve --engine 'temporal://127.0.0.1:7233/default?blobs=/srv/pml/blobs'`

func serveCmd(a *app.App) *cobra.Command {
	o := app.ServeOptions{}
	var listen []string
	var format string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server: runs that outlive their callers, HTTP, events, MCP",
		Long: `Runs a server until you stop it. It listens on a socket that only you can open,
and with --listen HOST:PORT also on an address, for callers with a key
(pml server key add) and for paired browsers. It takes up the runs that an
earlier server left; a server that pml had started in the background hands its
runs over and leaves.

Without --store the server keeps its runs in server.db of pml's own folder. Any
number of servers may share a PostgreSQL database, given by --store or PML_STORE,
or a namespace of Temporal, given by --engine or PML_ENGINE; the latter needs the
program pml-temporal beside pml or in PATH ("pml doctor --engine" looks at both).

A browser finds pages at the address: what waits, each run, and a form that decides.
One signs in with a key there, or is a device (pml pair). Beyond this machine pages
are shown over TLS only: with --tls-cert and --tls-key, or behind a proxy on this
machine that has them.

Agents find MCP at /mcp, with pml's tools and with those that "expose" of .pml.json
names. Callers on the socket name their workspace. For callers on an address it is
the folder in which the server was started, or PML_WORKSPACE. The server logs to
stderr; PML_LOG is debug, info (the default), warn or error.`,
		Example: serveExample,
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := app.NotEmpty(cmd, "listen", "store", "engine", "allow-host", "allow-origin", "allow-metrics", "log-format", "tls-cert", "tls-key"); err != nil {
				return err
			}
			if err := listenOn(&o, listen); err != nil {
				return err
			}
			if err := encrypts(o); err != nil {
				return err
			}
			if err := app.OneOf("log-format", format, "text", "json"); err != nil {
				return err
			}
			if o.Idle < 0 {
				return app.Usagef("--idle %s is negative", o.Idle)
			}
			o.JSONLog = format == "json"
			return serve(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&listen, "listen", nil, "an address HOST:PORT, or the path of the socket (default: the socket in pml's folder)")
	f.StringVar(&o.Store, "store", "", "postgres://… for a database of several servers")
	f.StringVar(&o.Engine, "engine", "", "temporal://HOST:PORT/NAMESPACE for runs that Temporal keeps")
	f.DurationVar(&o.Idle, "idle", 0, "leave after this long with nothing to do (0: never)")
	f.StringSliceVar(&o.Hosts, "allow-host", nil, "a name by which callers over TCP may address it")
	f.StringSliceVar(&o.Origins, "allow-origin", nil, "an origin whose pages may call it over TCP")
	f.StringSliceVar(&o.Metrics, "allow-metrics", nil, "the name of a key that may read /metrics over TCP")
	f.StringVar(&o.TLSCert, "tls-cert", "", "a certificate with its chain, in PEM: callers over TCP use TLS")
	f.StringVar(&o.TLSKey, "tls-key", "", "the key of the certificate, in PEM")
	f.BoolVar(&o.PlainPages, "pages-without-tls", false, "show the pages to other machines without TLS: whoever is on the way reads keys and decides")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.IntVar(&o.ReadyFD, "ready-fd", 0, "for pml itself: the descriptor of the starter")
	_ = f.MarkHidden("ready-fd")
	_ = cmd.RegisterFlagCompletionFunc("log-format", app.CompleteFixed("text", "json"))
	_ = cmd.RegisterFlagCompletionFunc("allow-metrics", completeKeys(a))
	for _, name := range []string{"store", "engine", "idle", "allow-host", "allow-origin"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

// encrypts checks what is said of TLS.
func encrypts(o app.ServeOptions) error {
	switch {
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return app.Usagef("--tls-cert and --tls-key belong together: give both")
	case o.TLSCert != "" && o.TCP == "":
		return app.Usagef("--tls-cert is for callers over TCP: name an address with --listen HOST:PORT")
	case o.TLSCert != "" && o.PlainPages:
		return app.Usagef("--pages-without-tls has no meaning beside --tls-cert")
	}
	return nil
}

// listenOn sorts what --listen names into a socket and an address.
func listenOn(o *app.ServeOptions, list []string) error {
	for _, s := range list {
		s = strings.TrimPrefix(s, "unix://")
		into := &o.TCP
		switch _, _, err := net.SplitHostPort(s); {
		case filepath.IsAbs(s):
			into = &o.Socket
		case err != nil:
			return app.Usagef("--listen %q is neither HOST:PORT nor the absolute path of a socket", s)
		}
		if *into != "" {
			return app.Usagef("--listen %q: there is one socket and one address; %s was given already", s, *into)
		}
		*into = s
	}
	return nil
}

func serve(ctx context.Context, a *app.App, o app.ServeOptions) error {
	if a.Serve == nil {
		return app.Usagef("this build of pml has no server")
	}
	o.Home = a.Flags.Home
	o.Log, _ = a.Environ("PML_LOG")
	if err := keptWhere(a, &o); err != nil {
		return err
	}
	if o.ReadyFD > 0 {
		return a.Serve(ctx, o)
	}
	o.Ready = func(addresses []string) {
		for _, s := range addresses {
			a.Note("listening on %s", s)
		}
	}
	return a.Serve(ctx, o)
}

// keptWhere is where the runs are kept, by the flags or else the environment.
func keptWhere(a *app.App, o *app.ServeOptions) error {
	switch {
	case o.Store != "" && o.Engine != "":
		return app.Usagef("--store and --engine are two places for the same runs: give one")
	case o.Store != "" || o.Engine != "":
		return nil
	}
	o.Store, _ = a.Environ("PML_STORE")
	o.Engine, _ = a.Environ("PML_ENGINE")
	if o.Store != "" && o.Engine != "" {
		return app.Usagef("PML_STORE and PML_ENGINE are two places for the same runs: set one")
	}
	return nil
}
