package env

import (
	"encoding/json"
	"strconv"

	"github.com/casys-ai/pml/core/jsonc"
)

// ExposeMode is how tools are offered through to an agent's host.
type ExposeMode string

// The modes of expose.
const (
	// ExposeList lists each tool under its own name.
	ExposeList ExposeMode = "list"
	// ExposeSearch offers two tools: one that finds the others, one that calls them.
	ExposeSearch ExposeMode = "search"
)

// exposePart is a list of globs, or an object of them and a mode.
type exposePart struct {
	Mode  *string
	Tools []string
}

// exposeObject is the second form.
type exposeObject struct {
	Mode  *string  `json:"mode,omitempty"`
	Tools []string `json:"tools"`
}

// IsZero reports whether nothing was said.
func (p exposePart) IsZero() bool { return p.Mode == nil && len(p.Tools) == 0 }

// MarshalJSON writes a list where no mode is named: a workspace that was trusted before
// there were modes stays so.
func (p exposePart) MarshalJSON() ([]byte, error) {
	if p.Mode == nil {
		return json.Marshal(p.Tools)
	}
	return json.Marshal(exposeObject(p))
}

func (p *exposePart) fields() []field {
	return []field{
		{"mode", schEnum(`"list" (the default) lists each tool under its own name; "search" offers two tools, search_tools and call_tool, whatever the number.`, string(ExposeList), string(ExposeSearch)), readEnum(&p.Mode, string(ExposeList), string(ExposeSearch))},
		{"tools", schPatterns("The tools, as patterns on server:tool."), readStrings(&p.Tools)},
	}
}

func exposeSchema() sch {
	object := schObject("", new(exposePart).fields())
	object["required"] = []string{"tools"}
	return sch{
		"description": "Tools that pml offers through to agents' hosts: patterns on server:tool, or an object of them and the mode.",
		"anyOf":       []any{schPatterns(""), object},
	}
}

func readExpose(to *exposePart) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		switch v.Value.(type) {
		case *jsonc.Array:
			to.Tools = d.strs(v, at)
		case *jsonc.Object:
			d.object(v, at, to.fields())
			if to.Tools == nil {
				d.fault(v, at, `needs "tools", a list of patterns`)
			}
		default:
			d.wrongType(v, at, `a list of patterns, or an object of "mode" and "tools"`)
		}
	}
}

// expose is the workspace's part if it has one, else the home's.
func (m *merger) expose(home, work exposePart) ([]string, ExposeMode) {
	part, in := home, m.home
	if work.Mode != nil || work.Tools != nil {
		part, in = work, m.work
	}
	mode, list := ExposeList, "/expose"
	if part.Mode != nil {
		mode = ExposeMode(*part.Mode)
	}
	if _, ok := in.pos["/expose/tools"]; ok {
		list = "/expose/tools"
	}
	for i := range part.Tools {
		n := "/" + strconv.Itoa(i)
		m.from("/expose"+n, in, list+n)
	}
	return part.Tools, mode
}
