package core

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"
	"unicode/utf8"
)

// NameRunes is how long the name of a run is at most, in characters.
const NameRunes = 100

// argRunes is how long an argument may be within a name.
const argRunes = 60

// Title is what people call the run: its name, or its intent where an older pml
// has given it none. It is one line and safe to show, and never empty.
func (r Run) Title() string {
	for _, text := range []string{r.Name, r.Intent} {
		if line := OneLine(text, NameRunes); line != "" {
			return line
		}
	}
	return "unnamed"
}

// OneLine is foreign text as one line that is safe to show, of at most max
// characters: its first line that has any, spaces that follow one another as one, and
// an ellipsis for all that is left out.
func OneLine(text string, max int) string {
	if isLine(text, max) {
		return text
	}
	whole := clip(text, 8*max)
	line, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(whole, "\r", "\n")), "\n")
	cut := len(whole) < len(text) || strings.TrimSpace(rest) != ""
	line = Visible(strings.Join(strings.Fields(line), " "), 0, false)
	if n := utf8.RuneCountInString(line); n > max || n == max && cut {
		line, cut = strings.TrimSpace(string([]rune(line)[:max-1])), true
	}
	if cut && line != "" {
		line += "…"
	}
	return line
}

// isLine reports whether OneLine would change nothing; of most names it does not, and
// lists have thousands.
func isLine(s string, max int) bool {
	if len(s) > max || s != strings.TrimSpace(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && s[i-1] == ' ' {
			return false
		}
	}
	return true
}

// clip is the beginning of a text, cut between two characters.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// CallName is a call as the name of a run says it: the tool without its server, and
// the argument that tells most of it.
func CallName(tool string, args json.RawMessage) string {
	return CleanCallName(tool, args, func(text string) string { return text })
}

// CleanCallName is CallName of arguments that may hold secrets: clean takes them out
// before anything is cut off.
func CleanCallName(tool string, args json.RawMessage, clean func(string) string) string {
	return OneLine(verb(tool)+" "+argLine(clean(telling(args))), NameRunes)
}

// wideRunes is how long an argument may be in a row that is as wide as a window.
const wideRunes = 200

// CallLine is CallName for a row that is cut where it is shown: it has the argument in
// far more characters, and of a path its beginning as well.
func CallLine(tool string, args json.RawMessage) string {
	return OneLine(verb(tool)+" "+OneLine(telling(args), wideRunes), NameRunes+wideRunes)
}

// verb is the name of a tool without its server.
func verb(tool string) string {
	if _, short, ok := SplitTool(tool); ok {
		tool = short
	}
	return OneLine(tool, NameRunes-argRunes-1)
}

// tellingKeys are the names of arguments that say what a call is about, those that
// say most first.
var tellingKeys = []string{
	"intent", "path", "file", "file_path", "filepath", "filename", "uri", "url", "query", "q", "sql", "command", "cmd", "pattern", "title", "subject",
	"name", "to", "channel", "repo", "repository", "key", "id", "source", "directory", "dir", "folder", "message", "text", "model",
}

// secretKeys are parts of names of arguments that are never shown in a name.
var secretKeys = []string{"token", "secret", "passw", "credential", "auth", "apikey", "api_key", "private", "cookie"}

// telling is the argument that says what a call is about: one whose name is known to,
// else the first that is a short text, else what tells most in the first that is nested. It is
// empty where there is none. Where there are only numbers it is the first of them, with their names.
func telling(args json.RawMessage) string { return tellingIn(args, maxNested) }

// maxNested is how deep arguments are looked into, maxNumbers how many are said where there is
// nothing else.
const (
	maxNested  = 4
	maxNumbers = 3
)

func tellingIn(args json.RawMessage, depth int) string {
	var first, nested string
	var numbers []string
	known := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(args))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return ""
		}
		k, _ := key.(string)
		k = strings.ToLower(k)
		v := scalar(raw)
		if secretName(k) {
			continue
		}
		if v == "" {
			if nested == "" {
				nested = inside(raw, depth-1)
			}
			continue
		}
		if _, had := known[k]; !had {
			known[k] = v
		}
		if raw[0] != '"' && len(numbers) < maxNumbers {
			numbers = append(numbers, k+" "+v)
		}
		if raw[0] == '"' && !particular(first) && (first == "" || particular(v)) {
			first = v
		}
	}
	vague := "" // what names the folder in which everything is
	for _, k := range tellingKeys {
		if v := known[k]; particular(v) {
			return v
		} else if vague == "" {
			vague = v
		}
	}
	switch {
	case vague != "" && !particular(first):
		return vague
	case first == "" && nested == "":
		return strings.Join(numbers, ", ")
	case first == "":
		return nested
	}
	return first
}

// inside is what tells most in an object, or in the first elements of a list.
func inside(raw json.RawMessage, depth int) string {
	switch {
	case depth <= 0 || len(raw) == 0 || len(raw) > 16*maxTelling:
		return ""
	case raw[0] == '{':
		return tellingIn(raw, depth)
	case raw[0] != '[':
		return ""
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	var told []string
	for _, one := range list[:min(len(list), 3)] {
		text := inside(one, depth-1)
		if len(one) > 0 && one[0] == '"' {
			text = scalar(one)
		}
		if particular(text) {
			told = append(told, text)
		}
	}
	return strings.Join(told, ", ")
}

// particular reports whether a text is more than the name of the folder in which everything is.
func particular(text string) bool { return strings.Trim(text, "./\\*") != "" }

// Particular reports whether the arguments of a call say what it is about: one that
// only names the folder in which everything is does not.
func Particular(args json.RawMessage) bool {
	return particular(telling(args))
}

// maxTelling is how long an argument may be to be looked at at all, in bytes of JSON.
const maxTelling = 4096

// scalar is a text or a number of JSON; empty for all else, for what is long, and for a
// text that stands for the result of another task.
func scalar(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0 || len(raw) > maxTelling:
		return ""
	case raw[0] == '"':
		if json.Unmarshal(raw, &text) != nil || strings.HasPrefix(text, "$") || strings.Contains(text, "{{") {
			return ""
		}
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		text = string(raw)
	}
	return text
}

// argLine is an argument as one short line. The end of a path says more than its
// beginning.
func argLine(text string) string {
	if utf8.RuneCountInString(text) > argRunes && strings.ContainsAny(text, `/\`) && !strings.ContainsAny(text, " \n") {
		text = "…" + lastRunes(text, argRunes-1)
	}
	return OneLine(text, argRunes)
}

func lastRunes(s string, n int) string {
	r := []rune(s)
	return string(r[max(0, len(r)-n):])
}

func secretName(key string) bool {
	for _, part := range secretKeys {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// FileName is the name of a program's file as the name of a run says it.
func FileName(file string) string {
	if file == "" || file == "-" || file == "stdin" {
		return ""
	}
	return OneLine(path.Base(strings.ReplaceAll(file, `\`, "/")), NameRunes)
}
