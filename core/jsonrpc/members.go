package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// EachMember calls f with the name and the text of each member of an object,
// which is valid JSON and begins with its brace; doubled ones come twice, names
// as they read without escapes. Who reads names by it reads them exactly:
// encoding/json takes "ID" for "id".
func EachMember(text []byte, f func(name, value []byte)) {
	for i := 1; ; {
		i = skipSpace(text, i)
		if text[i] == '}' {
			return
		}
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
		end := skipValue(text, i)
		name := text[i:end]
		i = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		end = skipValue(text, i)
		f(Unquoted(name), text[i:end:end])
		i = end
	}
}

// Unquoted is what a JSON string says.
func Unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends. The text is valid.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return SkipString(text, i)
	case '{', '[':
	default:
		for i < len(text) && bytes.IndexByte([]byte(",}] \t\r\n"), text[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = SkipString(text, i)
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
}

// SkipString returns where the string that begins at i ends. It looks at each
// byte at most twice, whatever is escaped.
func SkipString(text []byte, i int) int {
	i++
	quote := i + bytes.IndexByte(text[i:], '"')
	for {
		back := bytes.IndexByte(text[i:quote], '\\')
		if back < 0 {
			return quote + 1
		}
		if i += back + 2; i > quote {
			quote = i + bytes.IndexByte(text[i:], '"')
		}
	}
}
