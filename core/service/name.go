package service

import (
	"encoding/json"
	"iter"
	"regexp"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// nameOf is what people call a run: the name that its caller gives, else the intent,
// else the file's name, else the call that says most with its most telling argument, else
// how its code begins. It is one line, bounded and safe to show, whatever they hold. clean
// takes secrets out of each before it is cut.
func nameOf(req api.ExecuteRequest, p core.Program, clean func(string) string) string {
	intent := req.Intent
	if strings.HasPrefix(intent, accepted) {
		intent = "" // it repeats the tools
	}
	for _, text := range []string{req.Name, intent} {
		if line := core.OneLine(clean(text), core.NameRunes); line != "" {
			return line
		}
	}
	if p.Agent != nil {
		return core.OneLine(clean(p.Agent.Goal), core.NameRunes)
	}
	for _, find := range []func(core.Program, func(string) string) string{fileName, tellingCall, firstTask, firstLine} {
		if name := find(p, clean); name != "" {
			return name
		}
	}
	return ""
}

func fileName(p core.Program, clean func(string) string) string { return core.FileName(clean(p.File)) }

// tellingCall is the call of a program that says most of it, of those whose tool is
// known before it runs: the first one whose tool does more than read, by its name; else
// the first that is about something in particular; else the first. A script that lists
// a folder before it writes a file is named after what it writes.
func tellingCall(p core.Program, clean func(string) string) string {
	name, best := "", 0
	for tool, args := range callsOf(p) {
		rank := rankOf(tool, args)
		if rank <= best {
			continue
		}
		best, name = rank, core.CleanCallName(tool, args, clean)
		if rank == ranksActing {
			break
		}
	}
	return name
}

// callsOf yields the tools of a program and their arguments, as far as they are known.
func callsOf(p core.Program) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if p.Plan == nil {
			for _, t := range p.Tasks {
				if t.Tool != "" && t.Tool != core.CodeTool && !yield(t.Tool, t.Arguments) {
					return
				}
			}
			return
		}
		for _, call := range p.Plan.Calls {
			_, name, ok := core.SplitTool(call.Tool)
			if ok && name != "*" && call.Tool != core.CodeTool && !yield(call.Tool, knownOf(call)) {
				return
			}
		}
	}
}

// How much a call says of the program that makes it.
const (
	ranksAnything = 1 + iota
	ranksParticular
	ranksActing
)

func rankOf(tool string, args json.RawMessage) int {
	_, name, _ := core.SplitTool(tool)
	switch {
	case !readingWords[strings.ToLower(firstWord.FindString(name))]:
		return ranksActing
	case core.Particular(args):
		return ranksParticular
	}
	return ranksAnything
}

// firstWord is the word that a tool's name begins with: list of listFiles and list_files.
var firstWord = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// readingWords begin the names of tools that only read. They choose a name for people
// to read, and decide nothing.
var readingWords = map[string]bool{
	"browse": true, "check": true, "count": true, "describe": true, "directory": true, "download": true, "exists": true, "fetch": true, "find": true,
	"get": true, "glob": true, "grep": true, "has": true, "head": true, "info": true, "inspect": true, "is": true, "list": true, "lookup": true,
	"ls": true, "open": true, "query": true, "read": true, "resolve": true, "retrieve": true, "scan": true, "search": true, "select": true,
	"show": true, "stat": true, "status": true, "tail": true, "tree": true, "view": true, "whoami": true,
}

// knownOf are the arguments of a planned call, as far as they are known.
func knownOf(call core.PlanCall) json.RawMessage {
	if call.Arguments != nil || call.Known == nil {
		return call.Arguments
	}
	raw, err := json.Marshal(call.Known)
	if err != nil {
		return nil
	}
	return raw
}

func firstTask(p core.Program, clean func(string) string) string {
	if len(p.Tasks) == 0 {
		return ""
	}
	return core.OneLine(clean(p.Tasks[0].ID), core.NameRunes)
}

// firstLine is the first line of code that says something; a remark does, the fence of a
// Markdown block and a line for a shell do not.
func firstLine(p core.Program, clean func(string) string) string {
	for line := range strings.Lines(p.Source) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "```") || strings.HasPrefix(line, "#!") {
			continue
		}
		if line = core.OneLine(clean(strings.TrimLeft(line, "/*# ")), core.NameRunes); line != "" {
			return line
		}
	}
	return ""
}
