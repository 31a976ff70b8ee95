package hosts

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core"
)

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// shout is a name as people write those of the environment.
	shout = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// problem is why an entry cannot be taken over.
type problem string

// rewriter turns a host's variables into those of pml within one entry.
type rewriter struct {
	place  Place
	host   string
	folder string            // what ${workspaceFolder} is, seen from the entry's folder
	inputs map[string]string // type by id, of VS Code
	keys   map[string]bool   // names that the host asked for
}

// rewrite returns the text as .pml.json says it.
func (w *rewriter) rewrite(text string) (string, problem) {
	var b strings.Builder
	for {
		literal, rest, ok := strings.Cut(text, "${")
		b.WriteString(literal)
		if !ok {
			return b.String(), ""
		}
		body, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString("$${" + rest)
			return b.String(), ""
		}
		word, why := w.word(body)
		if why != "" {
			return "", why
		}
		if strings.HasSuffix(literal, "$") && strings.HasPrefix(word, "$") {
			return "", `a "$" stands right before a variable, which .pml.json would read as a literal "${"`
		}
		b.WriteString(word)
		text = after
	}
}

// word says what stands between ${ and } in the words of .pml.json.
func (w *rewriter) word(body string) (string, problem) {
	name, otherwise, hasDefault := strings.Cut(body, ":-")
	plain := "${" + body + "}"
	unknown := problem("uses " + core.Visible(plain, 60, false) + ", which pml has no word for")
	if hasDefault && strings.Contains(otherwise, "${") {
		return "", unknown
	}
	if w.host == codex {
		return "$" + plain, "" // it has no variables: this is text
	}
	if w.host != vscode && w.host != cursor {
		if variable.MatchString(name) {
			return plain, ""
		}
		return "$" + plain, "" // no variable to this host either
	}
	switch body {
	case "workspaceFolder", "workspaceRoot", "cwd":
		return w.folder, ""
	case "workspaceFolderBasename":
		return filepath.Base(w.place.Workspace), ""
	case "userHome":
		if w.place.GOOS == "windows" {
			return "${USERPROFILE}", ""
		}
		return "${HOME}", ""
	case "pathSeparator", "/":
		if w.place.GOOS == "windows" {
			return `\`, ""
		}
		return "/", ""
	}
	if id, ok := strings.CutPrefix(body, "input:"); ok {
		return w.input(id)
	}
	if env, ok := strings.CutPrefix(body, "env:"); ok && variable.MatchString(env) {
		return "${" + env + "}", ""
	}
	if shout.MatchString(name) {
		return plain, ""
	}
	return "", unknown
}

// input is the variable that stands for a question of the host.
func (w *rewriter) input(id string) (string, problem) {
	if w.inputs[id] == "command" {
		return "", problem("the input " + core.Visible(id, 60, false) + " is computed by a command of the editor")
	}
	name := upperSnake(id)
	w.keys[name] = true
	return "${" + name + "}", ""
}

// upperSnake makes the name of an environment variable: apiKey and api-key
// are API_KEY.
func upperSnake(s string) string {
	var b strings.Builder
	var last rune
	for _, r := range s {
		word := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		switch {
		case !word && last != '_' && b.Len() > 0:
			r = '_'
			b.WriteRune(r)
		case !word:
			continue
		case unicode.IsUpper(r) && (unicode.IsLower(last) || unicode.IsDigit(last)):
			b.WriteRune('_')
			b.WriteRune(r)
		default:
			b.WriteRune(unicode.ToUpper(r))
		}
		last = r
	}
	name := b.String()
	name = strings.TrimRight(name[:min(len(name), 60)], "_")
	switch {
	case name == "":
		return "INPUT"
	case unicode.IsDigit(rune(name[0])):
		return "_" + name
	}
	return name
}
