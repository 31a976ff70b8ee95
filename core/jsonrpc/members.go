package jsonrpc

import (
	"bytes"
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

// EachMember calls f with the name and the text of each member of an object,
// which is valid JSON and begins with its brace; doubled ones come twice, names
// as they read without escapes. Who reads names by it reads them exactly:
// encoding/json takes "ID" for "id".
func EachMember(text []byte, f func(name, value []byte)) {
	for i := 1; ; {
		i = core.SkipSpace(text, i)
		if text[i] == '}' {
			return
		}
		if text[i] == ',' {
			i = core.SkipSpace(text, i+1)
		}
		end := core.ValueEnd(text, i)
		name := text[i:end]
		i = core.SkipSpace(text, core.SkipSpace(text, end)+1) // behind the colon
		end = core.ValueEnd(text, i)
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
