// Package servers holds the commands of pml servers.
package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/cli/view"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Command is pml servers.
func Command(a *app.App) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:     "servers",
		Aliases: []string{"srv"},
		Short:   "MCP servers: add, check, pin, update, connect",
		Long: `Lists and checks the MCP servers of this workspace, adds and removes them, takes
over those of agent hosts, pins their packages in pml.lock, updates them, and
signs in to those that ask for it. A change is shown before it is written, and
an update before it is installed.`,
		Example: "  pml servers ls\n  pml servers add files -- npx -y @modelcontextprotocol/server-filesystem .\n  pml servers check\n  pml servers update files",
	}, serversLsCmd(a), serversAddCmd(a), serversRmCmd(a), serversImportCmd(a), serversCheckCmd(a),
		serversInstallCmd(a), serversLockCmd(a), serversUpdateCmd(a), serversConnectCmd(a))
}

func serversLsCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the configured servers; start nothing",
		Long: `Lists the configured servers with what is known of them without starting one:
how they stand, what they run, which version is pinned. One whose last start
failed, or whose package could not be found, is broken, with the reason below the
list, until that goes well. One that was started before needs what was left to
ask about its tools; of one that is "not started" nobody knows that yet.`,
		Example: "  pml servers ls\n  pml servers ls -o wide\n  pml servers ls --json | jq -r '.items[] | select(.state != \"ready\").name'",
		Args:    app.MaxArgs(0),
		RunE: a.With(func(ctx context.Context, b app.Backend, _ []string) error {
			list, err := b.Servers(ctx)
			if err != nil {
				return err
			}
			if err := printServers(a, list); err != nil {
				return err
			}
			sayBroken(a, list)
			sayLoose(a, list)
			sayNext(a, list)
			return nil
		}),
	}
}

// sayNext names the command that decides what is open, or else the one that looks again.
func sayNext(a *app.App, list []api.ServerInfo) {
	open := func(n api.ServerNeed) bool { return n.Type != core.ApproveOAuth }
	switch {
	case slices.ContainsFunc(list, func(s api.ServerInfo) bool {
		return s.State == api.ServerNotTrusted || slices.ContainsFunc(s.Needs, open)
	}):
		a.Note("next: pml servers install --all")
	case slices.ContainsFunc(list, func(s api.ServerInfo) bool { return s.State != api.ServerReady }):
		a.Note("next: pml servers check")
	}
}

func printServers(a *app.App, list []api.ServerInfo) error {
	return app.PrintList(a, api.Page[api.ServerInfo]{Items: list}, "no servers are configured", []app.Column[api.ServerInfo]{
		{Title: "NAME", Get: func(s api.ServerInfo) string { return s.Name }},
		{Title: "STATE", Get: stateOf, Style: func(s api.ServerInfo) layout.Style { return layout.StyleOf(stateOf(s)) }},
		{Title: "KIND", Drop: 2, Get: func(s api.ServerInfo) string { return s.Kind }},
		{Title: "VERSION/URL", Flex: true, Get: versionOrURL},
		{Title: "TOOLS", Get: toolCount},
		{Title: "FROM", Drop: 1, Get: func(s api.ServerInfo) string { return s.Origin }},
		{Title: "PACKAGE", Wide: true, Get: packageOf},
		{Title: "INSTALLED", Wide: true, Get: func(s api.ServerInfo) string { return yesOrDash(s.Installed) }},
		{Title: "NEEDS", Wide: true, Get: needsOf},
		{Title: "DIGEST", Wide: true, Get: func(s api.ServerInfo) string { return dash(s.Digest) }},
		{Title: "COMMAND", Wide: true, Get: func(s api.ServerInfo) string { return dash(layout.ShellJoin(s.Command)) }},
		{Title: "FILE", Wide: true, Get: func(s api.ServerInfo) string { return dash(s.File) }},
		{Title: "WARNING", Wide: true, Get: func(s api.ServerInfo) string { return dash(s.Warning) }},
	})
}

// stateOf is the state of a server in a word for people.
func stateOf(s api.ServerInfo) string {
	switch {
	case s.State == api.ServerFailed:
		return "broken"
	case s.State == api.ServerReady && s.Kind != "builtin" && s.Tools == 0 && len(s.Changed) == 0 && s.Health == nil:
		return "not started" // nobody knows yet what it asks for once it is
	}
	return string(s.State)
}

// sayBroken names the servers that do not start, and why.
func sayBroken(a *app.App, list []api.ServerInfo) {
	for _, s := range list {
		if s.State != api.ServerFailed {
			continue
		}
		when := ""
		if s.FailedAt != nil {
			when = " (" + layout.Ago(a.Now(), *s.FailedAt) + " ago)"
		}
		reason := core.Visible(strings.Join(strings.Fields(s.Error), " "), 2000, false)
		a.Note("%s: %s: %s%s", core.Visible(s.Name, 80, false), a.PaintErr(layout.Bad, "broken"), reason, when)
		if len(s.Next) > 2 && s.Next[2] != "check" { // a look alone corrects nothing
			a.Note("  next: %s", layout.ShellJoin(s.Next))
		}
	}
}

// sayLoose names the servers whose command leaves open what it runs.
func sayLoose(a *app.App, list []api.ServerInfo) {
	for _, s := range list {
		if s.Warning != "" {
			a.Note("%s: %s: %s", core.Visible(s.Name, 80, false), a.PaintErr(layout.Warn, "warning"), core.Visible(s.Warning, 2000, false))
		}
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesOrDash(yes bool) string {
	if yes {
		return "yes"
	}
	return "-"
}

func versionOrURL(s api.ServerInfo) string {
	if s.URL != "" {
		return s.URL
	}
	return dash(s.Version)
}

// toolCount is empty of a number until the server was started: then nobody
// knows how many tools it has.
func toolCount(s api.ServerInfo) string {
	if s.Tools == 0 && len(s.Changed) == 0 {
		return "-"
	}
	return strconv.Itoa(s.Tools)
}

func packageOf(s api.ServerInfo) string {
	if s.Package == "" || s.Range == "" {
		return dash(s.Package)
	}
	return s.Package + "@" + s.Range
}

func needsOf(s api.ServerInfo) string {
	var types []string
	for _, n := range s.Needs {
		types = append(types, string(n.Type))
	}
	return dash(strings.Join(types, ", "))
}

// writeServer shows what a table has no room for: what a server needs, what is
// wrong with it, and what to do.
func writeServer(a *app.App, w *strings.Builder, s api.ServerInfo) {
	var d strings.Builder
	text := func(k, v string) {
		if v != "" {
			fmt.Fprintf(&d, "  %-12s %s\n", k, core.Visible(v, 0, false))
		}
	}
	if s.State == api.ServerNotTrusted {
		text("needs", "the trust of this workspace's files on this machine")
	}
	for _, n := range s.Needs {
		text("needs", string(n.Type))
		text("what", n.Description)
		view.WriteContext(&d, needed(n), s.Name)
		text("digest", n.Digest)
		if n.Type == core.ApproveIntegrity {
			text("decided", "by the next command, or when a run first calls one of its tools")
		}
		if n.Type == core.ApproveOAuth && len(s.Next) == 0 {
			s.Next = []string{"pml", "servers", "connect", s.Name}
		}
	}
	if s.Error != "" {
		text("error", strings.Join(strings.Fields(s.Error), " "))
	}
	text("warning", s.Warning)
	writeHealth(&d, s)
	writeToolChanges(&d, s.Changed)
	text("helps", helps(s))
	if len(s.Next) > 0 {
		fmt.Fprintf(&d, "  next: %s\n", layout.ShellJoin(s.Next))
	} else if s.State == api.ServerNotTrusted {
		d.WriteString("  next: pml trust\n")
	}
	if d.Len() == 0 {
		return
	}
	all := core.Visible(s.Name, 0, false) + "\n" + d.String()
	if a.StdoutTTY {
		all = view.Card(all, a.Width(), a.Colour())
	}
	w.WriteString("\n" + all)
}

// helps says in words what the next command corrects of a server that does not start, where its
// arguments alone do not.
func helps(s api.ServerInfo) string {
	switch {
	case s.State != api.ServerFailed:
	case slices.Contains(s.Next, "--url"):
		return "check the address: the next command gives the server another one"
	case slices.Contains(s.Next, "--env"):
		return "declare the variable that it lacks; its value goes into .env"
	}
	return ""
}

// needed is the context of what a server needs. The address of a sign-in is
// left out: it means nothing once this command has ended.
func needed(n api.ServerNeed) json.RawMessage {
	raw, err := json.Marshal(n.Context)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	if n.Type == core.ApproveOAuth {
		delete(fields, "auth_url")
	}
	if raw, err = json.Marshal(fields); err != nil {
		return nil
	}
	return raw
}

// writeHealth shows the health of a server that is in trouble; one that is
// well needs no words.
func writeHealth(w *strings.Builder, s api.ServerInfo) {
	h := s.Health
	if h == nil || s.State != api.ServerFailed && h.Failures == 0 {
		return
	}
	fmt.Fprintf(w, "  %-12s %s", "health", core.Visible(h.State, 0, false))
	if h.Failures > 1 { // as this process has seen it
		fmt.Fprintf(w, ", failed %s in a row", layout.Plural(h.Failures, "time"))
	}
	if h.RetryAt != nil {
		fmt.Fprintf(w, ", tried again from %s", layout.Stamp(*h.RetryAt))
	}
	w.WriteByte('\n')
	if h.LastError != "" && h.LastError != s.Error {
		fmt.Fprintf(w, "  %-12s %s\n", "last error", core.Visible(h.LastError, 0, false))
	}
	if text := strings.TrimRight(h.Stderr, "\n"); text != "" {
		w.WriteString("  its last words on stderr:\n")
		layout.WriteLines(w, strings.Split(text, "\n"), 4)
	}
}

func writeToolChanges(w *strings.Builder, changes []api.ToolChange) {
	for _, c := range changes {
		fmt.Fprintf(w, "  tool %s: %s\n", core.Visible(c.Kind, 0, false), core.Visible(c.Tool, 0, false))
		layout.WriteLines(w, c.Diff, 4)
		if c.OldHash != "" {
			fmt.Fprintf(w, "    was %s\n", core.Visible(c.OldHash, 0, false))
		}
		if c.NewHash != "" {
			fmt.Fprintf(w, "    now %s\n", core.Visible(c.NewHash, 0, false))
		}
	}
}

// completeServers completes names of servers, without starting one: the first
// argument, or with many every one that is not there yet.
func completeServers(a *app.App, many bool) app.Completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, s := range knownServers(cmd.Context(), a) {
			if !slices.Contains(args, s.Name) {
				out = append(out, core.Visible(s.Name, 0, false)+"\t"+core.Visible(s.Kind+" "+string(s.State), 60, false))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// knownServers is nothing where it cannot be found out: a shell is no place
// for errors.
func knownServers(ctx context.Context, a *app.App) []api.ServerInfo {
	b, err := a.Backend(ctx)
	if err != nil {
		return nil
	}
	list, err := b.Servers(ctx)
	if err != nil {
		return nil
	}
	return list
}
