package cli

import (
	"os"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core/env"
)

// firstScript only reads, and needs no server but pml's own.
const firstScript = `return mcp.workspace.list_directory({path: "."})`

// firstPage is what pml alone prints at a terminal where nothing is configured: less
// than the smallest usual screen, since the list of commands says nobody where to begin.
const firstPage = `pml runs scripts and task graphs (DAGs) that call tools of MCP servers, for your
agent or for you. It keeps every result, and stops before what is risky: then it
asks you.

Nothing is configured here yet. To begin:

  pml init          tell Claude Code, Cursor and other agents of pml, and choose
                    who decides
  pml tui --demo    look around: made-up runs and questions, nothing is changed

A first script, which lists this folder. Reading is not asked about:

  pml run --code '` + firstScript + `'

And one that writes, so it shows you the change and asks:

  pml run --code 'return mcp.workspace.write_file({path:"a.md", content:"hi"})'

pml help programs says how scripts are written; pml --help lists all commands.
`

// unconfigured reports whether neither this folder nor the home has a configuration. It
// looks at names only: what cannot be found out counts as configured.
func unconfigured(a *app.App) bool {
	if !a.Human() || !a.StdoutTTY || a.Flags.Server != "" {
		return false
	}
	environ := env.Environ(a.Environ)
	home, err := env.FindHome(a.Flags.Home, environ)
	if err != nil {
		return false
	}
	dir := a.Folder
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return false
		}
	}
	workspace, err := env.FindWorkspace(dir, environ)
	if err != nil {
		return false
	}
	for _, file := range []string{home.Config(), workspace.Config()} {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			return false
		}
	}
	return true
}
