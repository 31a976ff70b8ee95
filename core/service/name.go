package service

import (
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// nameOf is what people call a run: the name that its caller gives, else the intent,
// else the file's name, else the first call with its most telling argument, else how
// its code begins. It is one line, bounded and safe to show, whatever they hold. clean
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
	for _, find := range []func(core.Program, func(string) string) string{fileName, firstCall, firstTask, firstLine} {
		if name := find(p, clean); name != "" {
			return name
		}
	}
	return ""
}

func fileName(p core.Program, clean func(string) string) string { return core.FileName(clean(p.File)) }

// firstCall is the first call of a program whose tool is known before it runs.
func firstCall(p core.Program, clean func(string) string) string {
	if p.Plan == nil {
		for _, t := range p.Tasks {
			if t.Tool != "" && t.Tool != core.CodeTool {
				return core.CleanCallName(t.Tool, t.Arguments, clean)
			}
		}
		return ""
	}
	for _, call := range p.Plan.Calls {
		if _, name, ok := core.SplitTool(call.Tool); ok && name != "*" && call.Tool != core.CodeTool {
			return core.CleanCallName(call.Tool, knownOf(call), clean)
		}
	}
	return ""
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

// firstLine is the first line of code that says something; a remark does.
func firstLine(p core.Program, clean func(string) string) string {
	for line := range strings.Lines(p.Source) {
		if line = core.OneLine(clean(strings.TrimLeft(strings.TrimSpace(line), "/*# ")), core.NameRunes); line != "" {
			return line
		}
	}
	return ""
}
