package servers

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

func serversConnectCmd(a *app.App) *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "connect NAME",
		Short: "Sign in to a server that asks for it (OAuth)",
		Long: `Prints the URL at which you sign in, on stderr, and waits until the browser has
come back from there. Nothing is opened unless --open is given: then the
program that BROWSER names is started, else the system's browser. --timeout
bounds the wait.`,
		Example:           "  pml servers connect linear\n  pml servers connect linear --open --timeout 5m",
		Args:              app.ExactArgs("NAME"),
		ValidArgsFunction: completeServers(a, false),
		RunE:              func(cmd *cobra.Command, args []string) error { return connectServer(cmd.Context(), a, args[0], open) },
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the URL in a browser")
	return cmd
}

func connectServer(ctx context.Context, a *app.App, name string, open bool) error {
	if open && a.OpenURL == nil {
		return app.Usagef("--open: no browser can be started here; leave it away and open the URL by hand")
	}
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	busy := a.Busy("asking the server where to sign in")
	defer busy.End()
	err = b.ConnectServer(ctx, name, func(at string) {
		busy.Show(signIn(a, at))
		if open {
			browse(ctx, a, busy, at)
		}
		busy.Say("waiting for the browser to come back")
	})
	busy.End()
	if err != nil {
		return err
	}
	out := struct {
		Name      string `json:"name"`
		Connected bool   `json:"connected"`
	}{name, true}
	return a.Print(out, app.Line("connected %s", core.Visible(name, 0, false)))
}

// signIn is the URL as stderr shows it, whole and on a line of its own; for a
// program as JSON.
func signIn(a *app.App, at string) string {
	if a.AsJSON() {
		raw, err := json.Marshal(map[string]string{"auth_url": at})
		if err == nil {
			return string(raw) + "\n"
		}
	}
	return "sign in at this address:\n\n" + core.Visible(at, 0, false) + "\n\n"
}

// browse opens the URL. It came from a server: nothing but a page of the web
// is given to a program of this machine. That it cannot be opened stops
// nothing, the URL is on the screen.
func browse(ctx context.Context, a *app.App, busy *progress.Busy, at string) {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		busy.Show("note: the address is not a page of the web; it was not opened\n")
		return
	}
	if err := a.OpenURL(ctx, at); err != nil {
		busy.Show("note: the browser was not opened: " + core.Visible(err.Error(), 400, false) + "\n")
	}
}
