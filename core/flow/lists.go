package flow

import (
	"encoding/json"
)

// ListDiff is what flows of tools/list have made of a server's tools: the names of those
// that stay as they are, that say something else, and that are hidden.
type ListDiff struct {
	Same, Changed, Hidden []string
}

// DiffLists compares two lists of tools as flows see them: {"tools": [{"name": …}]}.
func DiffLists(before, after json.RawMessage) (d ListDiff, ok bool) {
	was, ok1 := toolsOf(before)
	now, ok2 := toolsOf(after)
	if !ok1 || !ok2 {
		return d, false
	}
	left := map[string]json.RawMessage{}
	for _, t := range now {
		left[t.name] = t.text
	}
	for _, t := range was {
		switch text, there := left[t.name]; {
		case !there:
			d.Hidden = append(d.Hidden, t.name)
		case same(t.text, text):
			d.Same = append(d.Same, t.name)
		default:
			d.Changed = append(d.Changed, t.name)
		}
	}
	return d, true
}

type listedTool struct {
	name string
	text json.RawMessage
}

func toolsOf(list json.RawMessage) (out []listedTool, ok bool) {
	var l struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(list, &l) != nil {
		return nil, false
	}
	for _, text := range l.Tools {
		var t struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(text, &t) != nil {
			return nil, false
		}
		out = append(out, listedTool{t.Name, text})
	}
	return out, true
}
