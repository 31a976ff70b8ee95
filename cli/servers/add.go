package servers

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type addOptions struct {
	name    string
	command []string
	url     string
	env     []string
	headers []string
	oauth   oauthOptions
	global  bool
	replace bool
	change  changes.Flags
}

// oauthOptions are of a client that was registered by hand.
type oauthOptions struct {
	clientID, secret string
	scopes           []string
	port             int
}

func serversAddCmd(a *app.App) *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME (-- COMMAND [ARG…] | --url URL)",
		Short: "Add a server to .pml.json",
		Long: `Writes a server into .pml.json, or with --global into the configuration of
pml's home. The change is shown first. What stands after -- is the command, as
in the settings of an agent host. --replace corrects a server that is there.

--env declares a variable of the command: K=VALUE, or K alone for the value that
.env or the environment has under the same name. A value that looks like a key
is kept in .env, never in .pml.json. --header is the same for a URL, written
"Name: value". --oauth-client-id is for a server whose authorization server lets
no program register itself: you register pml there, with the callback
http://127.0.0.1:PORT/callback, and give its client id here; --oauth-secret names
the variable of .env that has the client secret. Nothing is installed or started
unasked: at a terminal pml asks whether to install and check the server at once.
"pml servers install NAME" does both, too; "pml servers check" only says what is needed.`,
		Example: `  pml servers add files -- npx -y @modelcontextprotocol/server-filesystem .
  pml servers add search --env TAVILY_API_KEY -- npx -y tavily-mcp
  pml servers add web --url https://mcp.example.com/mcp --header 'X-Api-Key'
  pml servers add code --url https://mcp.example.com/mcp \
    --oauth-client-id Iv1.8a61f9b3a7aba766 --oauth-secret CODE_CLIENT_SECRET
  pml servers add git --global --yes -- uvx mcp-server-git==2026.1.14`,
		RunE: func(cmd *cobra.Command, args []string) error {
			entry, err := o.parse(cmd, args)
			if err != nil {
				return err
			}
			return addServer(cmd.Context(), a, o, entry)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if cmd.ArgsLenAtDash() < 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "the URL of a streamable HTTP server")
	f.StringArrayVar(&o.env, "env", nil, "a variable of the command: K=VALUE, or K for ${K}")
	f.StringArrayVar(&o.headers, "header", nil, "a header of the requests: \"Name: value\", or Name for a key in .env")
	f.StringVar(&o.oauth.clientID, "oauth-client-id", "", "the client id of pml at the URL's authorization server, registered by hand")
	f.StringVar(&o.oauth.secret, "oauth-secret", "", "the variable that has its client secret, in .env or the environment")
	f.StringArrayVar(&o.oauth.scopes, "oauth-scope", nil, "a scope to ask for, instead of those that the server lists")
	f.IntVar(&o.oauth.port, "oauth-port", 0, "the port of the callback that was registered (any free one)")
	f.BoolVar(&o.global, "global", false, "write to the configuration of pml's home: for all workspaces")
	f.BoolVar(&o.replace, "replace", false, "put it in the place of the server that has its name")
	changes.AddFlags(cmd, &o.change, true)
	return cmd
}

// parse reads the command line. All that can be known to be wrong without
// looking at the configuration is found here.
func (o *addOptions) parse(cmd *cobra.Command, args []string) (api.ServerEntry, error) {
	next := []string{"pml", "servers", "add", "--help"}
	names := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names, o.command = args[:dash], args[dash:]
	}
	wrong := func(format string, args ...any) (api.ServerEntry, error) {
		return api.ServerEntry{}, app.Usagef(format, args...).WithNext(next...)
	}
	switch {
	case len(names) == 0 || names[0] == "":
		return wrong("pml servers add needs NAME")
	case len(names) > 1:
		return wrong("unexpected argument %q; the command stands after --: pml servers add NAME -- COMMAND ARG…", core.Visible(names[1], 80, false))
	case len(o.command) > 0 && o.url != "":
		return wrong("give either a command after -- or --url, not both")
	case len(o.command) == 0 && o.url == "":
		return wrong("say what to run: a command after --, or --url URL")
	case len(o.command) > 0 && o.command[0] == "":
		return wrong("the command after -- is empty")
	case len(o.env) > 0 && o.url != "":
		return wrong("--env is for a command; a URL takes --header")
	case len(o.headers) > 0 && o.url == "":
		return wrong("--header goes with --url; a command takes --env")
	}
	o.name = names[0]
	e := api.ServerEntry{Name: o.name, URL: o.url, Home: o.global, Replace: o.replace}
	if len(o.command) > 0 {
		e.Command, e.Args = o.command[0], o.command[1:]
	}
	var err error
	if e.OAuth, err = o.oauth.parse(o.url); err != nil {
		return wrong("%w", err)
	}
	if e.Env, err = parseEnv(o.env); err == nil {
		e.Headers, err = parseHeaders(o.headers)
	}
	if err != nil {
		return wrong("%w", err)
	}
	return e, nil
}

// parse makes the oauth object of an entry; nil where no flag was given.
func (o oauthOptions) parse(url string) (*core.OAuthClient, error) {
	given := o.clientID != "" || o.secret != "" || len(o.scopes) > 0 || o.port != 0
	switch {
	case !given:
		return nil, nil
	case url == "":
		return nil, app.Usagef("--oauth-… goes with --url: a command is not connected with OAuth")
	case o.clientID == "":
		return nil, app.Usagef("--oauth-secret, --oauth-scope and --oauth-port go with --oauth-client-id")
	case o.secret != "" && !isName(o.secret):
		// Whatever it is may be the secret: it is not shown.
		return nil, app.Usagef("--oauth-secret takes the name of a variable; its value belongs into .env")
	}
	c := &core.OAuthClient{ClientID: o.clientID, Scopes: o.scopes, RedirectPort: o.port}
	if o.secret != "" {
		c.ClientSecret = "${" + o.secret + "}"
	}
	return c, nil
}

// parseEnv reads variables: K=VALUE, or K and K=- for the value that is kept
// elsewhere under that name.
func parseEnv(list []string) (map[string]string, error) {
	var out map[string]string
	for i, text := range list {
		k, v, ok := strings.Cut(text, "=")
		if !ok || v == "-" {
			v = "${" + k + "}"
		}
		if !isName(k) {
			// Whatever it is may be a key: it is not shown.
			return nil, app.Usagef("--env number %d does not begin with the name of a variable; write K=VALUE, or K for the value in .env", i+1)
		}
		if _, twice := out[k]; twice {
			return nil, app.Usagef("--env %s is given twice", k)
		}
		out = with(out, k, v)
	}
	return out, nil
}

// parseHeaders reads headers: "Name: value", or Name and "Name: -" for a value
// that is kept elsewhere, under the name in capitals.
func parseHeaders(list []string) (map[string]string, error) {
	var out map[string]string
	var seen []string
	for n, text := range list {
		k, v := text, ""
		if i := strings.IndexAny(text, ":="); i >= 0 {
			k, v = text[:i], strings.TrimSpace(text[i+1:])
		}
		k = strings.TrimSpace(k)
		if !isToken(k) {
			return nil, app.Usagef("--header number %d does not begin with the name of a header; write \"Name: value\", or Name for a key in .env", n+1)
		}
		if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
			return nil, app.Usagef("the value of --header %s has a control character", k)
		}
		if v == "" || v == "-" {
			v = "${" + variableOf(k) + "}"
		}
		if slices.Contains(seen, strings.ToLower(k)) {
			return nil, app.Usagef("--header %s is given twice", k)
		}
		seen = append(seen, strings.ToLower(k))
		out = with(out, k, v)
	}
	return out, nil
}

func with(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// isName reports whether a text is the name of an environment variable.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// isToken reports whether a text is the name of a header.
func isToken(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return s != ""
}

// variableOf is the variable that a header's value is kept under.
func variableOf(header string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z':
			return r
		}
		return '_'
	}, header)
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// holdsValues reports whether an entry has values of its own, not only names
// of those that are kept elsewhere.
func holdsValues(e api.ServerEntry) bool {
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for _, v := range m {
			if !strings.HasPrefix(v, "${") {
				return true
			}
		}
	}
	return false
}

func addServer(ctx context.Context, a *app.App, o addOptions, e api.ServerEntry) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	set, err := b.AddServer(ctx, e)
	if err != nil {
		return err
	}
	p := &changes.Proposal{ChangeSet: set, Ask: "add " + layout.ShellQuote(core.Visible(o.name, 0, false)) + "?", Again: a.WithFlags("--yes")}
	if holdsValues(e) || len(set.Changes) > 1 {
		// What may be a key, or goes to .env as one, is not written out again.
		p.Again = []string{"pml", "servers", "add", "--help"}
	}
	err = changes.Propose(ctx, a, b, p, o.change)
	next := []string{"pml", "servers", "install", o.name} // which also checks
	offer := err == nil && p.Written && !o.change.Yes && a.CanAsk() && (p.Trusted == nil || *p.Trusted)
	if p.Written {
		next = nextOf(ctx, b, o.name, next)
	}
	if !offer {
		return changes.Conclude(a, p, err, next...)
	}
	if err := changes.Conclude(a, p, nil); err != nil {
		return err
	}
	return installAdded(ctx, a, o.name, next)
}

// installAdded asks whether a server that was just added is installed and checked at once. It
// is written already, so that a no, or no answer, only names the command that does it later.
func installAdded(ctx context.Context, a *app.App, name string, later []string) error {
	now, err := app.YesNo{Question: "install and check it now?", Enter: true}.Ask(ctx, a)
	if err != nil && core.CodeOf(err) != core.CodeAwaitingHuman {
		return err
	}
	if !now {
		a.Note("next: %s", layout.ShellJoin(later))
		return nil
	}
	return installServers(ctx, a, installOptions{names: []string{name}})
}

// nextOf is the command that decides what a server needs, where one does; else other.
func nextOf(ctx context.Context, b app.Backend, name string, other []string) []string {
	list, err := b.Servers(ctx)
	if err != nil {
		return other // the change is made; a check says what is wrong
	}
	for _, s := range list {
		if s.Name == name && s.State == api.ServerNeeds && len(s.Next) > 0 {
			return s.Next
		}
	}
	return other
}
