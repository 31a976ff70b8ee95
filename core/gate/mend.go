package gate

import (
	"maps"
	"regexp"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
)

var (
	// wrongAddress is how a server fails whose URL is not that of an MCP server.
	wrongAddress = regexp.MustCompile(`it answers with HTTP (4\d\d|501)|no such host`)
	// unset is what programs say that stop because a variable of their environment is not set,
	// and variable is how they name it.
	unset    = regexp.MustCompile(`(?i)environment|env var|required|not set|must be set|missing`)
	variable = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
)

// mend names the command that corrects the entry of a server that does not start.
func (s *server) mend(i *api.ServerInfo) {
	failed := i.Code == core.CodeServerUnreachable || i.Code == core.CodeCancelled
	switch {
	case !failed || len(i.Next) > 0:
	case i.URL != "" && wrongAddress.MatchString(i.Error):
		i.Next = append(replaceEntry(i.Name, i.Origin), "--url", "URL")
	case i.URL != "": // it may only be away
		i.Next = []string{"pml", "servers", "check", i.Name}
	case len(i.Command) > 0:
		i.Next = replaceCommand(i.Name, i.Origin)
		if name := s.lacks(i.Error); name != "" {
			i.Next = s.declare(i, name)
		}
	}
}

// lacks is the variable that a program says it needs and that its entry does not declare; pml
// hands on no other. Empty: it says nothing of the kind.
func (s *server) lacks(said string) string {
	if !unset.MatchString(said) {
		return ""
	}
	for _, name := range variable.FindAllString(said, -1) {
		if _, declared := s.entry.Env[name]; !declared {
			return name
		}
	}
	return ""
}

// declare is the command that declares one more variable for a server, and leaves the rest of its
// entry as it is. Where the command line cannot say the rest, or may not show it, it is left
// to the person.
func (s *server) declare(i *api.ServerInfo, name string) []string {
	next, command := replaceEntry(i.Name, i.Origin), append([]string{s.entry.Command}, s.entry.Args...)
	same := slices.Equal(command, i.Command) && s.entry.Cwd == "" && s.entry.Protocol == ""
	for _, k := range slices.Sorted(maps.Keys(s.entry.Env)) {
		next = append(next, "--env", k)
		same = same && s.entry.Env[k] == "${"+k+"}"
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
