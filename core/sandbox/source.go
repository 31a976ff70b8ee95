package sandbox

import (
	"regexp"
	"slices"
	"strings"
)

var (
	fence = regexp.MustCompile("^\\s*```+\\s*[A-Za-z]*\\s*$")
	// importType is an import of types alone, which may take several lines.
	importType = regexp.MustCompile(`^\s*import\s*(?:type\s[^;'"]*?|\{(?:\s*type\s+[\w$]+(?:\s+as\s+[\w$]+)?\s*,?)+\s*\}\s*)from\s*(?:'[^'\n]*'|"[^"\n]*")[ \t]*;?[ \t]*(?://[^\n]*)?\r?(?:\n|$)`)
	strict     = regexp.MustCompile(`^(?:"use strict"|'use strict')\s*;?$`)
)

// openFence reports whether code begins with a Markdown fence. It is asked of what
// plainSource has left as it was, where such a fence is not closed.
func openFence(lines []string) bool {
	i := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) != "" })
	return i >= 0 && fence.MatchString(lines[i]) && strings.TrimSpace(strings.Join(lines[i+1:], "")) != "" && !strings.HasSuffix(strings.TrimSpace(strings.Join(lines, "\n")), "\n```")
}

// plainSource leaves out what stands around code and means nothing: a Markdown
// fence, a line for a shell, and imports of types at the beginning. Lines stay
// where they are.
func plainSource(source string) string {
	lines := strings.Split(source, "\n")
	first, last := 0, len(lines)-1
	for first < last && strings.TrimSpace(lines[first]) == "" {
		first++
	}
	for last > first && strings.TrimSpace(lines[last]) == "" {
		last--
	}
	if first < last && fence.MatchString(lines[first]) && strings.TrimSpace(lines[last]) == "```" {
		lines[first], lines[last] = "", ""
		first++
	}
	for i := 0; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		switch {
		case i <= first && strings.HasPrefix(lines[i], "#!"):
			lines[i] = ""
		case text == "", strings.HasPrefix(text, "//"), strict.MatchString(text):
		case strings.HasPrefix(text, "/*"):
			for !strings.Contains(lines[i], "*/") && i < len(lines)-1 {
				i++
			}
			if !strings.HasSuffix(strings.TrimSpace(lines[i]), "*/") {
				return strings.Join(lines, "\n")
			}
		case strings.HasPrefix(text, "import"):
			found := importType.FindString(strings.Join(lines[i:], "\n"))
			if found == "" {
				return strings.Join(lines, "\n")
			}
			for n := strings.Count(strings.TrimSuffix(found, "\n"), "\n"); n > 0; n-- {
				lines[i] = ""
				i++
			}
			lines[i] = ""
		default:
			return strings.Join(lines, "\n")
		}
	}
	return strings.Join(lines, "\n")
}
