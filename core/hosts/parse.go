package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// value is a JSON value with the offsets at which it begins and ends. The zero
// value is one that is not there.
type value struct {
	kind    byte // '{', '[', '"', '0', 't' (both booleans), 'n' (null); 0: none
	at, end int
	text    string // of a string, number or boolean
	members []member
	items   []value
}

type member struct {
	name   string
	nameAt int
	value
}

// count says how often an object has a name.
func (v value) count(name string) int {
	n := 0
	for _, m := range v.members {
		if m.name == name {
			n++
		}
	}
	return n
}

// get returns a member of an object. Of a name that stands twice the last one
// counts, as for the hosts.
func (v value) get(name string) value {
	for i := len(v.members) - 1; i >= 0; i-- {
		if v.members[i].name == name {
			return v.members[i].value
		}
	}
	return value{}
}

// what names the kind of a value.
func (v value) what() string {
	switch v.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "nothing"
}

// source turns offsets into positions.
type source []byte

func (s source) at(offset int) core.Position {
	before := s[:min(max(offset, 0), len(s))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return core.Position{Line: bytes.Count(before, []byte("\n")) + 1, Column: utf8.RuneCount(before[line:]) + 1}
}

func (s source) fault(offset int, format string, args ...any) core.Fault {
	at := s.at(offset)
	return core.Fault{At: &at, Message: fmt.Sprintf(format, args...)}
}

// parse reads JSON, with comments and trailing commas whichever host it is of:
// VS Code and Cursor allow them, and in the files of others they mislead
// nobody. Faults never repeat the text, which may hold a secret.
func parse(data []byte) (value, source, *core.Fault) {
	src := source(data)
	if !utf8.Valid(data) {
		f := core.Fault{Message: "is not UTF-8 text"}
		return value{}, src, &f
	}
	plain := jsonc.Strip(data).Plain
	var whole json.RawMessage
	if err := json.Unmarshal(plain, &whole); err != nil {
		offset := len(plain)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && int(syntax.Offset) < len(plain) {
			offset = int(syntax.Offset) - 1
		}
		f := src.fault(offset, "not valid JSON from here on")
		return value{}, src, &f
	}
	t := &tokens{dec: json.NewDecoder(bytes.NewReader(plain)), plain: plain}
	t.dec.UseNumber()
	v, err := t.value()
	if err != nil {
		f := src.fault(int(t.dec.InputOffset()), "not valid JSON from here on")
		return value{}, src, &f
	}
	return v, src, nil
}

// tokens builds values. The text was found valid before, and not nested deeper
// than encoding/json allows.
type tokens struct {
	dec   *json.Decoder
	plain []byte
}

func (t *tokens) value() (value, error) {
	tok, at, err := t.next()
	if err != nil {
		return value{}, err
	}
	v := value{at: at}
	switch tok := tok.(type) {
	case string:
		v.kind, v.text = '"', tok
	case json.Number:
		v.kind, v.text = '0', tok.String()
	case bool:
		v.kind, v.text = 't', fmt.Sprint(tok)
	case json.Delim:
		v.kind = byte(tok)
		err = t.inside(&v)
	default:
		v.kind = 'n'
	}
	v.end = int(t.dec.InputOffset())
	return v, err
}

// inside reads what an object or a list holds, and its end.
func (t *tokens) inside(v *value) error {
	for t.dec.More() {
		name, nameAt := "", 0
		if v.kind == '{' {
			tok, at, err := t.next()
			if err != nil {
				return err
			}
			name, _ = tok.(string)
			nameAt = at
		}
		item, err := t.value()
		if err != nil {
			return err
		}
		if v.kind == '{' {
			v.members = append(v.members, member{name, nameAt, item})
		} else {
			v.items = append(v.items, item)
		}
	}
	_, _, err := t.next()
	return err
}

// next returns a token and the offset of its first byte.
func (t *tokens) next() (json.Token, int, error) {
	at := int(t.dec.InputOffset())
	for at < len(t.plain) && bytes.IndexByte([]byte(" \t\r\n:,"), t.plain[at]) >= 0 {
		at++
	}
	tok, err := t.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return tok, at, err
}
