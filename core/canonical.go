package core

import "unicode/utf8"

// plainDepth bounds the nesting that isCanonical looks into.
const plainDepth = 64

// isCanonical reports whether a JSON value is surely in canonical form already,
// so that Digest need not take it apart: no spaces, keys in order, plain strings
// and integers. Most arguments of calls are. False means only that it does not
// know.
func isCanonical(raw []byte) bool {
	s := plain{raw: raw}
	return s.value(0) && s.at == len(raw) && utf8.Valid(raw)
}

// plain reads a JSON value as long as it is in canonical form.
type plain struct {
	raw []byte
	at  int
}

// next takes a byte if it is the expected one.
func (s *plain) next(c byte) bool {
	if s.at >= len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *plain) value(depth int) bool {
	if s.at >= len(s.raw) || depth > plainDepth {
		return false
	}
	switch s.raw[s.at] {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		_, ok := s.text(utf8.RuneError)
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.integer()
}

func (s *plain) object(depth int) bool {
	s.at++
	if s.next('}') {
		return true
	}
	last := ""
	for first := true; ; first = false {
		// Keys in ASCII are in the order of their bytes.
		key, ok := s.text(utf8.RuneSelf)
		if !ok || !first && string(key) <= last || !s.next(':') || !s.value(depth+1) {
			return false
		}
		last = string(key)
		if !s.next(',') {
			return s.next('}')
		}
	}
}

func (s *plain) array(depth int) bool {
	s.at++
	if s.next(']') {
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if !s.next(',') {
			return s.next(']')
		}
	}
}

// text takes a string without escapes, all of its bytes below a limit.
func (s *plain) text(below rune) ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for start := s.at; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; {
		case c == '"':
			s.at++
			return s.raw[start : s.at-1], true
		case c < ' ' || c == '\\' || rune(c) >= below:
			return nil, false
		}
	}
	return nil, false
}

// integer takes a number of up to 15 digits, which every float64 holds.
func (s *plain) integer() bool {
	if s.next('0') {
		return true
	}
	s.next('-')
	start := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	n := s.at - start
	return 0 < n && n <= 15 && s.raw[start] != '0'
}

func (s *plain) word(w string) bool {
	if len(s.raw)-s.at < len(w) || string(s.raw[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}
