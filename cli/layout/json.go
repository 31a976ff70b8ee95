package layout

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Indent lays JSON out over lines; what is not JSON stays as it is.
func Indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return core.Visible(string(raw), 0, true)
	}
	return b.String()
}

// Compact is JSON on one line, safe for a screen.
func Compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return core.Visible(string(raw), 0, false)
	}
	return core.Visible(b.String(), 0, false)
}

// telling are the keys of arguments that say what a call is about, the most
// telling first.
var telling = []string{"path", "file_path", "file", "filename", "paths", "source", "destination", "uri", "url", "command", "query", "sql", "name", "id"}

// Arguments are those of a call on one line, a path or whatever else tells most
// first; each value is cut at so many letters (0: not).
func Arguments(raw json.RawMessage, limit int) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return core.Visible(Compact(raw), limit, false)
	}
	rank := func(key string) int {
		if at := slices.Index(telling, key); at >= 0 {
			return at
		}
		return len(telling)
	}
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if n := rank(a) - rank(b); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(keys))
	for i, key := range keys {
		value := Compact(object[key])
		var text string
		if json.Unmarshal(object[key], &text) == nil && text != "" && !strings.ContainsAny(text, " \t\n\"") {
			value = core.Visible(text, 0, false)
		}
		parts[i] = core.Visible(key, 60, false) + "=" + Cut(value, limit)
	}
	return strings.Join(parts, " ")
}
