//go:build unix

package pmltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// fakeNPM is a program that answers as npm does, without a network: every
// package has version 1.0.0 and one program, which is the recorder.
const fakeNPM = `#!/bin/sh
PATH=/usr/bin:/bin
name=$(sed -n 's/.*"dependencies":{"\([^"]*\)".*/\1/p' package.json)
echo "$1 $name" >> "LOG"
case "$1" in
install)
  h=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  echo '{"lockfileVersion":3,"packages":{"":{"dependencies":{"'$name'":"latest"}},"node_modules/'$name'":{"version":"1.0.0","integrity":"sha512-'$h'==","bin":{"'$name'":"cli"}}}}' > package-lock.json ;;
ci)
  mkdir -p node_modules/$name
  echo '{"version":"1.0.0","bin":{"'$name'":"cli"}}' > node_modules/$name/package.json
  printf '#!SHEBANG\nexec "RECORDER" --log "CALLS" "$@"\n' > node_modules/$name/cli
  chmod +x node_modules/$name/cli ;;
esac
`

// WithNPM gives a machine a PATH that holds nothing but a fake npm, and returns
// the file with its command lines. shebang is the first line of the programs.
func (m *Machine) WithNPM(shebang string) string {
	m.T.Helper()
	bin, log := filepath.Join(m.Dir, "bin"), filepath.Join(m.Dir, "npm.log")
	if err := os.Mkdir(bin, 0o755); err != nil {
		m.T.Fatal(err)
	}
	text := strings.NewReplacer("LOG", log, "SHEBANG", shebang, "RECORDER", Recorder(m.T), "CALLS", m.Log).Replace(fakeNPM)
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(text), 0o755); err != nil {
		m.T.Fatal(err)
	}
	m.Setenv("PATH", bin)
	return log
}

// NPX is the entry of a server from the fake npm.
func NPX(pkg string) map[string]any {
	return map[string]any{"command": "npx", "args": []string{"-y", pkg, "--name", pkg}}
}

// Toolbox is a package of an MCP server that asks for nothing but node.
func Toolbox(version, description string) registrytest.Package {
	return registrytest.Server("toolbox", version,
		registrytest.Tool{Name: "become", Description: "Become another."},
		registrytest.Tool{Name: "steady", Description: "Answer.", Annotations: map[string]any{"readOnlyHint": true}},
		registrytest.Tool{Name: "shifty", Description: description},
	)
}

// WithToolbox is a machine whose npm knows one registry, with the server
// toolbox configured, allowed and trusted. It is not installed.
func WithToolbox(t *testing.T, reg *registrytest.Registry) *Machine {
	t.Helper()
	skiptest.Tool(t, "npm")
	skiptest.Tool(t, "node")
	m := BareMachine(t)
	m.Env = reg.Env(m.Env)
	m.Configure(Config{Permissions: map[string]any{"allow": []string{"*"}}, Servers: map[string]map[string]any{
		"rec": nil, "toolbox": {"command": "npx", "args": []string{"-y", "toolbox@^1.0.0"}},
	}})
	return m
}

// CallSteady calls the tool of toolbox that never changes.
const CallSteady = `return (await mcp.toolbox.steady({n: 1})).version`
