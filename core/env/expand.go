package env

import (
	"errors"
	"strings"
)

// ref is a piece of a text: literal, or a variable with what to use instead.
type ref struct {
	text       string // literal text, or the variable's name
	variable   bool
	hasDefault bool
	otherwise  string
}

// parseRefs cuts a text at ${NAME} and ${NAME:-default}. "$${" is a literal
// "${". The error never repeats the text, which may hold a secret.
func parseRefs(s string) ([]ref, error) {
	var out []ref
	var lit strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			lit.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			lit.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		lit.WriteString(s[:i])
		body, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return nil, errors.New(`a "${" is not closed; write "$${" for a literal one`)
		}
		name, otherwise, hasDefault := strings.Cut(body, ":-")
		if !validName(name) {
			return nil, errors.New(`after "${" stands something else than the name of a variable; write "$${" for a literal one`)
		}
		if strings.Contains(otherwise, "${") {
			return nil, errors.New("the default of ${" + name + ":-…} holds another ${; that is not supported")
		}
		out = append(out, ref{text: lit.String()}, ref{text: name, variable: true, hasDefault: hasDefault, otherwise: otherwise})
		lit.Reset()
		s = rest
	}
	return append(out, ref{text: lit.String()}), nil
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// expansion is an expanded text.
type expansion struct {
	value string
	unset []string          // variables that are unset or empty, without a default
	fake  []string          // variables whose value is a placeholder
	used  map[string]string // values by variable, defaults left out
	file  map[string]bool   // those of used that .env gave
	// optional: empty because the author wrote an empty default.
	optional bool
}

// expand replaces variables. Malformed texts were refused when the file was
// read; what is left of one stays as it is.
func (v *variables) expand(text string, dotenv bool) expansion {
	x := expansion{used: map[string]string{}, file: map[string]bool{}}
	refs, err := parseRefs(text)
	if err != nil {
		x.value = text
		return x
	}
	var b strings.Builder
	for _, r := range refs {
		if !r.variable {
			b.WriteString(r.text)
			continue
		}
		value, fromFile := v.lookup(r.text, dotenv)
		switch {
		case value != "":
			x.used[r.text], x.file[r.text] = value, fromFile
			if placeholder(value) {
				x.fake = append(x.fake, r.text)
			}
		case r.hasDefault:
			value = r.otherwise
			x.optional = x.optional || r.otherwise == ""
		default:
			x.unset = append(x.unset, r.text)
		}
		b.WriteString(value)
	}
	x.value = b.String()
	return x
}
