package hosts

import (
	"maps"
	"slices"
	"strings"
)

// Conceal moves what is secret in an entry that a person typed into Secrets,
// as Find and Read do for those of a file. Texts that refer to variables stay.
func Conceal(e Entry) Entry {
	e.Args, e.Env, e.Headers = slices.Clone(e.Args), maps.Clone(e.Env), maps.Clone(e.Headers)
	r := &reader{names: newNames()}
	r.conceal(&e)
	return e
}

// InPlain names, sorted, the secrets of an entry that stand in its command,
// arguments, URL or folder, and not only in env and headers. pml takes what
// stands there in an entry for all workspaces from the process environment
// alone: no .env can supply it.
func (e Entry) InPlain() []string {
	text := strings.Join(append([]string{e.Command, e.URL, e.Cwd}, e.Args...), "\n")
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		if strings.Contains(text, "${"+name+"}") {
			out = append(out, name)
		}
	}
	return out
}
