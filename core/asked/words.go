package asked

import (
	"encoding/json"
	"strings"
)

// Changed says in words what a question about integrity is about: the kind that the
// gate has given it, and whether something was recorded before. It is empty for a kind
// that this pml does not know.
func Changed(kind, oldHash string) string {
	first := strings.TrimSpace(oldHash) == ""
	switch kind {
	case "tree":
		return "installed files have changed"
	case "command":
		return pick(first, "its command line or address is new", "its command line or address has changed")
	case "file":
		return pick(first, "a file that it runs is new", "a file that it runs has changed")
	case "tool":
		return pick(first, "a tool is new", "a tool's definition has changed")
	case "readonly":
		return pick(first, "do its tools only read, as they say?", "more of its tools say that they only read")
	}
	return ""
}

func pick(first bool, yes, no string) string {
	if first {
		return yes
	}
	return no
}

// ChangedBy says in words which flows have changed the arguments of a call, above those
// that the program passed. names is the JSON list of them.
func ChangedBy(names json.RawMessage) string {
	var list []string
	_ = json.Unmarshal(names, &list) // what cannot be read names no flow
	return "changed by the flow " + Safe(strings.Join(list, ", "), 200) + "; the program's own arguments"
}
