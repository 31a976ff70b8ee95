//go:build unix

package process

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/casys-ai/pml/core"
)

func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	const address = "https://example.com/?a=1&b=$(x)"
	for _, c := range []struct {
		browser, goos string
		want          []string
	}{
		{"", "linux", []string{"xdg-open", address}},
		{"", "darwin", []string{"open", address}},
		{"", "windows", []string{"rundll32", "url.dll,FileProtocolHandler", address}},
		{"firefox", "linux", []string{"firefox", address}},
		{"w3m -T text/html %s:lynx", "linux", []string{"w3m", "-T", "text/html", address}},
		{`C:\firefox.exe -new-tab`, "windows", []string{`C:\firefox.exe`, "-new-tab", address}},
		{"  ", "darwin", []string{"open", address}},
	} {
		environ := func(string) (string, bool) { return c.browser, c.browser != "" }
		if got := browserCommand(environ, c.goos, address); !slices.Equal(got, c.want) {
			t.Errorf("%q on %s: %q, want %q", c.browser, c.goos, got, c.want)
		}
	}
	open := browserOpener(func(string) (string, bool) { return "/no/such/browser", true }, "linux", startDetached)
	if err := open(t.Context(), address); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Error(err)
	}
	var started *exec.Cmd
	open = browserOpener(func(string) (string, bool) { return "b", true }, "linux", func(cmd *exec.Cmd) error { started = cmd; return nil })
	if err := open(t.Context(), address); err != nil || !slices.Equal(started.Args, []string{"b", address}) {
		t.Errorf("%v %v", err, started)
	}
}
