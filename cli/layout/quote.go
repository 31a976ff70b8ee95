package layout

import (
	"strings"

	"github.com/casys-ai/pml/core"
)

// ShellJoin writes an argument vector as a line that a POSIX shell reads back.
func ShellJoin(argv []string) string {
	out := make([]string, len(argv))
	for i, s := range argv {
		out[i] = ShellQuote(core.Visible(s, 0, false))
	}
	return strings.Join(out, " ")
}

// ShellQuote quotes an argument that a POSIX shell would not read as it is.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=,+%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
