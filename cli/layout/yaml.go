package layout

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/casys-ai/pml/core"
)

// YAML writes JSON as block-style YAML, keys in the same order, numbers with
// the same digits.
func YAML(raw []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	w := &yamlWriter{dec: dec}
	if err := w.value(0, false); err != nil {
		return "", core.Errorf(core.CodeInternal, "cannot write YAML: %w", err)
	}
	return strings.TrimPrefix(w.b.String(), "\n"), nil
}

type yamlWriter struct {
	dec *json.Decoder
	b   strings.Builder
}

// value writes the next value after a key (or, inSeq, after "- ").
func (w *yamlWriter) value(indent int, inSeq bool) error {
	t, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if !w.dec.More() {
			_, err = w.dec.Token()
			w.scalar(map[json.Delim]string{'{': "{}", '[': "[]"}[t])
			return err
		}
		if t == '{' {
			err = w.object(indent, inSeq)
		} else {
			err = w.array(indent)
		}
		if err != nil {
			return err
		}
		_, err = w.dec.Token()
		return err
	case string:
		w.scalar(yamlString(t))
	case json.Number:
		w.scalar(t.String())
	case bool:
		w.scalar(map[bool]string{true: "true", false: "false"}[t])
	case nil:
		w.scalar("null")
	}
	return nil
}

func (w *yamlWriter) scalar(s string) {
	if w.b.Len() > 0 {
		w.b.WriteByte(' ')
	}
	w.b.WriteString(s + "\n")
}

func (w *yamlWriter) object(indent int, inSeq bool) error {
	first := true
	for w.dec.More() {
		k, err := w.dec.Token()
		if err != nil {
			return err
		}
		switch {
		case first && inSeq:
			w.b.WriteByte(' ')
		default:
			w.newline(indent)
		}
		first = false
		name, _ := k.(string)
		w.b.WriteString(yamlString(name) + ":")
		if err := w.value(indent+2, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWriter) array(indent int) error {
	for w.dec.More() {
		w.newline(indent)
		w.b.WriteByte('-')
		if err := w.value(indent+2, true); err != nil {
			return err
		}
	}
	return nil
}

// newline begins a line, ending the one that a key or a dash has begun.
func (w *yamlWriter) newline(indent int) {
	if s := w.b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		w.b.WriteByte('\n')
	}
	w.b.WriteString(strings.Repeat(" ", indent))
}

// yamlString quotes what YAML would read as something else.
func yamlString(s string) string {
	if plainYAML(s) {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var plainWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./()-]+)*$`)

func plainYAML(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf":
		return false
	}
	return plainWord.MatchString(s)
}
