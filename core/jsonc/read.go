// Package jsonc reads and edits JSON as people write it: with comments, trailing
// commas and a byte order mark. What was read knows where it stands, and an edit
// keeps every byte that is not part of what changes.
package jsonc

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/casys-ai/pml/core"
)

// The parts of a text. Their offsets are those of the text.
type (
	Value   = hujson.Value
	Object  = hujson.Object
	Member  = hujson.ObjectMember
	Array   = hujson.Array
	Literal = hujson.Literal
	Kind    = hujson.Kind
)

// Doc is a text that was read.
type Doc struct {
	*Source
	Root Value
	// Commas are the offsets of trailing commas.
	Commas []int
	plain  []byte // the text with comments blanked; offsets are the same
}

// SyntaxError says where a text is no JSON, and why.
type SyntaxError struct {
	Offset int
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Reason }

// Parse reads a text in which objects and lists are nested at most so deep. The Doc
// has its Source and Commas also beside an error.
func Parse(text []byte, depth int) (*Doc, *SyntaxError) {
	stripped := Strip(text)
	d := &Doc{Source: NewSource(text), Commas: stripped.Commas, plain: stripped.Plain}
	switch {
	case !utf8.Valid(text):
		return d, &SyntaxError{firstInvalid(text), "the file is not UTF-8 text"}
	case stripped.Open >= 0:
		return d, &SyntaxError{stripped.Open, "the comment that starts here does not end"}
	case stripped.Depth > depth:
		return d, &SyntaxError{stripped.Deepest, fmt.Sprintf("nested more than %d deep", depth)}
	}
	root, err := hujson.Parse(stripped.Plain)
	if err != nil {
		return d, whyNot(stripped.Plain, err)
	}
	d.Root = root
	for _, at := range d.Commas {
		d.plain[at] = ','
	}
	return d, nil
}

// ParseStrict is Parse for a text in which nothing but JSON may stand.
func ParseStrict(text []byte, depth int) (*Doc, *SyntaxError) {
	if !json.Valid(text) {
		return &Doc{Source: NewSource(text)}, whyNot(text, nil)
	}
	return Parse(text, depth)
}

func firstInvalid(text []byte) int {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// whyNot says what is wrong with a text that cannot be read, in the words of
// encoding/json, which people know.
func whyNot(plain []byte, err error) *SyntaxError {
	offset := len(plain)
	var whole json.RawMessage
	if known := json.Unmarshal(plain, &whole); known != nil {
		err = known
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Error() != "unexpected end of JSON input" {
		offset = int(syntax.Offset) - 1
	}
	return &SyntaxError{offset, "not valid JSON: " + core.Visible(err.Error(), 120, false)}
}

// Find returns a member of an object. Of a name that stands twice it is the last
// one, which counts for most readers.
func Find(v Value, name string) (m Member, ok bool) {
	if obj, is := v.Value.(*Object); is {
		for _, each := range obj.Members {
			if Name(each) == name {
				m, ok = each, true
			}
		}
	}
	return m, ok
}

// Name is the name of a member.
func Name(m Member) string { return m.Name.Value.(Literal).String() }

// Source turns the offsets of a text into positions.
type Source struct {
	text  []byte
	lines []int // offset of each line's first byte
}

// NewSource returns the Source of a text.
func NewSource(text []byte) *Source {
	s := &Source{text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// Text is what was read.
func (s *Source) Text() []byte { return s.text }

// At returns the position of an offset; columns count characters.
func (s *Source) At(offset int) core.Position {
	offset = min(max(offset, 0), len(s.text))
	line := sort.SearchInts(s.lines, offset+1)
	return core.Position{Line: line, Column: utf8.RuneCount(s.text[s.lines[line-1]:offset]) + 1}
}

// Fault is a fault at an offset.
func (s *Source) Fault(offset int, format string, args ...any) core.Fault {
	at := s.At(offset)
	return core.Fault{At: &at, Message: fmt.Sprintf(format, args...)}
}
