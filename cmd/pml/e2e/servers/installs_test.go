//go:build unix

package servers_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestServersInstall_Everything: one command decides, at one terminal, all that a server of
// a cloned workspace needs: the trust of its files, a key that .env does not have yet, its
// package, and what it says of its tools. After that a run asks nothing.
func TestServersInstall_Everything(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages again and again")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := withEmptyProject(t, reg)
	m.Write(".pml.json", `{"permissions": {"readonly": "allow"}, "mcpServers": {"toolbox": {
  "command": "npx", "args": ["-y", "toolbox@^1.0.0"], "env": {"TOOLBOX_KEY": "${TOOLBOX_KEY}"}}}}`)
	pmltest.Wants(t, m.Exit(8, "servers", "install", "--all").Stderr, "needed:", "trust")
	if len(treesOf(m, "toolbox")) != 0 {
		t.Fatal("it was installed without a person")
	}

	screen := m.OnScreen(140, 200, m.Command(t.Context(), "servers", "install", "--all"))
	pmltest.Wants(t, screen.Shows("trust this?"), "needed:", "toolbox@^1.0.0")
	screen.Types("y\r")
	screen.Shows("trusted ", "TOOLBOX_KEY", "is it there now?")
	m.Write(".env", "TOOLBOX_KEY=key-of-the-toolbox\n")
	screen.Types("y\r")
	screen.Shows("install and approve this?", "toolbox@1.0.0")
	screen.Types("y\r")
	screen.Shows("installed toolbox", "steady", "accept this?")
	screen.Types("y\r")
	digits := regexp.MustCompile(`high risk: type (\w{4}) to approve: `).FindStringSubmatch(screen.Shows(" to approve: "))
	if digits == nil {
		t.Fatal(screen.Written())
	}
	screen.Types(digits[1] + "\r")
	if code := screen.End(); code != 0 {
		t.Fatalf("exit %d: %s", code, screen.Written())
	}
	if s := serverOf(m, "toolbox"); s.State != api.ServerReady || !s.Installed || s.Version != "1.0.0" {
		t.Errorf("%+v", s)
	}
	pmltest.Wants(t, pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock")), "1.0.0")
	m.Execute(0, pmltest.CallSteady)
	pmltest.Wants(t, m.OK("servers", "install", "--all").Stderr, "no package is missing")
}
