package sandbox

import (
	"regexp"
	"strings"
)

// The engine does not wait for the return() of an iterator when a script leaves
// `for await` early: what follows the loop runs before its cleaning up. esbuild
// therefore writes these loops out, with functions of its own before the code.

// cutHelpers takes the functions that esbuild puts before the wrapper off. They
// are lines of their own.
func cutHelpers(code string) (helpers, rest string) {
	if i := strings.Index(code, "\n"+outputHead); i >= 0 && strings.HasPrefix(code, "var __") {
		return code[:i+1], code[i+1:]
	}
	return "", code
}

// loopEnd is the end of the head of a loop that esbuild has written out, with
// the names of its variables.
var loopEnd = regexp.MustCompile(`, (more\d*), (temp\d*), (error\d*); (more\d*) = !\((temp\d*) = await (iter\d*)\.next\(\)\)\.done; (more\d*) = false\) \{$`)

// closeLoops has each loop that esbuild has written out begin with fresh
// variables: otherwise a loop inside another one throws the error that it ended
// with before, or closes the iterator that it had before.
func closeLoops(body string) string {
	lines := strings.Split(body, "\n")
	for end := range lines {
		m := loopEnd.FindStringSubmatch(lines[end])
		if m == nil || m[1] != m[4] || m[1] != m[7] || m[2] != m[5] {
			continue
		}
		for start := end; start > 0; start-- {
			if strings.Contains(lines[start], "for (var "+m[6]+" = __forAwait(") {
				// At the end of a line, so that no column moves.
				if strings.HasSuffix(lines[start-1], "try {") {
					lines[start-1] += " " + m[1] + " = " + m[3] + " = void 0;"
				}
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}
