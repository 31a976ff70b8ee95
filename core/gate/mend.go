package gate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

var (
	// wrongAddress is how a server fails whose URL is not that of an MCP server.
	wrongAddress = regexp.MustCompile(`it answers with HTTP (4\d\d|501)|no such host`)
	// unset is what programs say in the line that names a variable of their environment which is
	// not set, and variable is how they name it.
	unset    = regexp.MustCompile(`(?i)environment|env var|is required|not set|must be set|missing`)
	variable = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
)

// mend names the command that corrects the entry of a server that does not start.
func mend(e env.ServerEntry, i *api.ServerInfo) {
	failed := i.Code == core.CodeServerUnreachable || i.Code == core.CodeCancelled
	switch {
	case !failed || len(i.Next) > 0:
	case i.URL != "" && wrongAddress.MatchString(i.Error):
		i.Next = append(replaceEntry(i.Name, i.Origin), "--url", "URL")
	case i.URL != "": // it may only be away
		i.Next = []string{"pml", "servers", "check", i.Name}
	case len(i.Command) > 0:
		i.Next = replaceCommand(i.Name, i.Origin)
		if name := lacks(e, i.Error); name != "" {
			i.Next = declare(e, i, name)
		}
	}
}

// lacks is the variable that a program says it needs and that its entry does not declare; pml
// hands on no other. Empty: it says nothing of the kind.
func lacks(e env.ServerEntry, said string) string {
	for line := range strings.Lines(said) {
		if !unset.MatchString(line) {
			continue
		}
		for _, name := range variable.FindAllString(line, -1) {
			_, declared := e.Env[name]
			if !declared && !strings.HasPrefix(name, "ERR_") { // which is how Node.js names its errors
				return name
			}
		}
	}
	return ""
}

// declare is the command that declares one more variable for a server, and leaves the rest of its
// entry as it is. Where the command line cannot say the rest, or may not show it, it is left
// to the person.
func declare(e env.ServerEntry, i *api.ServerInfo, name string) []string {
	next, command := replaceEntry(i.Name, i.Origin), append([]string{e.Command}, e.Args...)
	same := slices.Equal(command, i.Command) && e.Cwd == "" && e.Protocol == ""
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		if e.Env[k] != "${"+k+"}" { // a value of its own, which may be a key
			same = false
			k += "=VALUE"
		}
		next = append(next, "--env", k)
	}
	if !same {
		command = []string{"COMMAND"}
	}
	return append(append(next, "--env", name, "--"), command...)
}

// replaceEntry is how the command begins that gives a server another entry.
func replaceEntry(name, origin string) []string {
	next := []string{"pml", "servers", "add", name, "--replace"}
	if origin == string(env.FromHome) {
		next = append(next, "--global")
	}
	return next
}

// replaceCommand is the command that gives a server another command.
func replaceCommand(name, origin string) []string {
	return append(replaceEntry(name, origin), "--", "COMMAND")
}
