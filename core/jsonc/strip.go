package jsonc

import (
	"bytes"

	"github.com/casys-ai/pml/core"
)

// Text is JSON with everything that is not JSON replaced by spaces, so that
// offsets and lines stay.
type Text struct {
	Plain []byte
	// Commas are the offsets of trailing commas.
	Commas []int
	// Open is the offset of a comment that does not end, -1 when all do.
	Open int
	// Depth is how deep objects and lists are nested, Deepest the offset at which
	// they first are.
	Depth, Deepest int
}

// Strip reads a text. It never fails: what is no JSON otherwise stays as it is.
func Strip(data []byte) Text {
	s := stripper{Text: Text{Plain: bytes.Clone(data), Open: -1}, comma: -1}
	i := 0
	if bytes.HasPrefix(s.Plain, []byte("\ufeff")) {
		i = s.wipe(0, 3)
	}
	for i < len(s.Plain) {
		i = s.step(i)
	}
	return s.Text
}

type stripper struct {
	Text
	comma int // the last one, while nothing but space has followed; else -1
	depth int
}

// step reads what begins at an offset and returns that of what follows.
func (s *stripper) step(i int) int {
	rest := s.Plain[i:]
	switch c := rest[0]; c {
	case '"':
		s.comma = -1
		return core.StringEnd(s.Plain, i)
	case '/':
		if end, ok := s.comment(i); ok {
			return s.wipe(i, end)
		}
		s.comma = -1
	case ',':
		s.comma = i
	case '{', '[':
		s.comma = -1
		if s.depth++; s.depth > s.Depth {
			s.Depth, s.Deepest = s.depth, i
		}
	case '}', ']':
		if s.comma >= 0 {
			s.Commas = append(s.Commas, s.comma)
			s.wipe(s.comma, s.comma+1)
		}
		s.comma = -1
		s.depth--
	case ' ', '\t', '\r', '\n':
	default:
		s.comma = -1
	}
	return i + 1
}

// comment returns the end of the comment that begins at an offset, if one does.
func (s *stripper) comment(i int) (end int, ok bool) {
	rest := s.Plain[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			return i + n, true
		}
		return len(s.Plain), true
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2, true
		}
		s.Open = i
		return len(s.Plain), true
	}
	return 0, false
}

// wipe overwrites a part with spaces, newlines kept, and returns its end.
func (s *stripper) wipe(from, to int) int {
	for i := from; i < to; i++ {
		if s.Plain[i] != '\n' {
			s.Plain[i] = ' '
		}
	}
	return to
}
