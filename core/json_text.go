package core

import "bytes"

// The functions below find their way in the text of JSON values without parsing
// them: whoever needs one member of a large result, or its exact bytes, pays for
// reading over the rest and for nothing else. They never recurse, and on text that
// is no JSON they stop at its end.

// SkipSpace returns the offset of the first byte from i on that is no white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// StringEnd returns the offset behind the string whose opening quote is at i, the
// end of the text where it is not closed. It looks for quotes and backslashes by
// bytes.IndexByte, so each byte is looked at twice at most, whatever is escaped.
func StringEnd(b []byte, i int) int {
	i++
	quote := quoteFrom(b, i)
	for quote < len(b) {
		back := bytes.IndexByte(b[i:quote], '\\')
		if back < 0 {
			return quote + 1
		}
		if i += back + 2; i > quote { // the quote itself was escaped
			quote = quoteFrom(b, i)
		}
	}
	return len(b)
}

// quoteFrom returns the offset of the next quote, the end of the text without one.
func quoteFrom(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	if q := bytes.IndexByte(b[i:], '"'); q >= 0 {
		return i + q
	}
	return len(b)
}

// ValueEnd returns the offset behind the value that starts at i.
func ValueEnd(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return StringEnd(b, i)
	case '{', '[':
		return containerEnd(b, i)
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

// containerEnd returns the offset behind the object or array that starts at i.
func containerEnd(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = StringEnd(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}
