package env

import (
	"strconv"

	"github.com/casys-ai/pml/core/jsonc"
	"github.com/casys-ai/pml/core/policy"
)

// ruleEntry is a rule with a condition.
type ruleEntry struct{ Tool, Where string }

func (r *ruleEntry) fields() []field {
	text := func(to *string) func(*decoder, jsonc.Value, string) {
		return func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				if *to = s; s == "" {
					d.fault(v, at, "is empty")
				}
			}
		}
	}
	return []field{
		{"tool", sch{"type": "string", "minLength": 1, "maxLength": 512, "description": "The pattern."}, text(&r.Tool)},
		{"where", sch{"type": "string", "minLength": 1, "maxLength": 4000, "description": "The condition, e.g. args.team == 'ENG' && size(args.body) < 2000."}, text(&r.Where)},
	}
}

// readRules reads patterns, each as a text or in an object with its condition.
func readRules(to *[]policy.Rule) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		d.file.pos[at] = d.doc.At(v.StartOffset)
		arr, ok := v.Value.(*jsonc.Array)
		if !ok {
			d.wrongType(v, at, "a list of patterns")
			return
		}
		*to = []policy.Rule{}
		for i, e := range arr.Elements {
			*to = append(*to, d.rule(e, at+"/"+strconv.Itoa(i)))
		}
	}
}

func (d *decoder) rule(v jsonc.Value, at string) policy.Rule {
	switch v.Value.Kind() {
	case '"':
		pattern, _ := d.str(v, at)
		return policy.Rule{Tool: pattern}
	case '{':
	default:
		d.wrongType(v, at, "a pattern, or an object with tool and where")
		return policy.Rule{}
	}
	var r ruleEntry
	before := len(d.faults)
	d.object(v, at, r.fields())
	if len(d.faults) == before && (r.Tool == "" || r.Where == "") {
		d.fault(v, at, `needs "tool" and "where"; a pattern without a condition stands alone, as a string`)
	}
	return policy.Rule(r)
}
