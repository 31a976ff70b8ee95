package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

type addOptions struct {
	name    string
	command []string
	url     string
	env     []string
	headers []string
	global  bool
	change  changeFlags
}

func (a *app) serversAddCmd() *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME (-- COMMAND [ARG…] | --url URL)",
		Short: "Add a server to .pml.json",
		Long: `Writes a server into .pml.json, or with --global into the configuration of
pml's home. The change is shown first. What stands after -- is the command, as
in the settings of an agent host.

--env declares a variable of the command: K=VALUE, or K alone for the value that
.env or the environment has under the same name. A value that looks like a key
is kept in .env, never in .pml.json. --header is the same for a URL, written
"Name: value". Nothing is installed or started: "pml servers check" says what a
server needs.`,
		Example: `  pml servers add files -- npx -y @modelcontextprotocol/server-filesystem .
  pml servers add search --env TAVILY_API_KEY -- npx -y tavily-mcp
  pml servers add web --url https://mcp.example.com/mcp --header 'X-Api-Key'
  pml servers add git --global --yes -- uvx mcp-server-git==2026.1.14`,
		RunE: func(cmd *cobra.Command, args []string) error {
			entry, err := o.parse(cmd, args)
			if err != nil {
				return err
			}
			return a.addServer(cmd.Context(), o, entry)
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
	f.BoolVar(&o.global, "global", false, "write to the configuration of pml's home: for all workspaces")
	addChangeFlags(cmd, &o.change, true)
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
		return api.ServerEntry{}, usagef(format, args...).WithNext(next...)
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
	e := api.ServerEntry{Name: o.name, URL: o.url, Home: o.global}
	if len(o.command) > 0 {
		e.Command, e.Args = o.command[0], o.command[1:]
	}
	var err error
	if e.Env, err = parseEnv(o.env); err == nil {
		e.Headers, err = parseHeaders(o.headers)
	}
	if err != nil {
		return wrong("%w", err)
	}
	return e, nil
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
			return nil, usagef("--env number %d does not begin with the name of a variable; write K=VALUE, or K for the value in .env", i+1)
		}
		if _, twice := out[k]; twice {
			return nil, usagef("--env %s is given twice", k)
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
			return nil, usagef("--header number %d does not begin with the name of a header; write \"Name: value\", or Name for a key in .env", n+1)
		}
		if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
			return nil, usagef("the value of --header %s has a control character", k)
		}
		if v == "" || v == "-" {
			v = "${" + variableOf(k) + "}"
		}
		if slices.Contains(seen, strings.ToLower(k)) {
			return nil, usagef("--header %s is given twice", k)
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

func (a *app) addServer(ctx context.Context, o addOptions, e api.ServerEntry) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	set, err := b.AddServer(ctx, e)
	if err != nil {
		return err
	}
	p := &proposal{ChangeSet: set, ask: "add " + shellQuote(core.Visible(o.name, 0, false)) + "?", again: a.withFlags("--yes")}
	if holdsValues(e) || len(set.Changes) > 1 {
		// What may be a key, or goes to .env as one, is not written out again.
		p.again = []string{"pml", "servers", "add", "--help"}
	}
	err = a.propose(ctx, b, p, o.change)
	return a.concluded(p, err, "pml", "servers", "check", o.name)
}
