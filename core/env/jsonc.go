package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

const (
	maxFile  = 1 << 20 // bytes of a configuration file
	maxDepth = 64      // of nested objects and lists
)

// file is a configuration file as it was read.
type file struct {
	name   string // path, as messages show it
	origin Origin
	layer  layer
	pos    map[string]core.Position // of each value, by JSON pointer
}

// place is where a value of the merged configuration was written.
type place struct {
	origin  Origin
	file    *file
	pointer string // within the file
}

// source turns offsets into positions.
type source struct {
	data  []byte
	lines []int // offset of each line's first byte
}

func newSource(data []byte) *source {
	s := &source{data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// at returns the position of an offset; columns count characters.
func (s *source) at(offset int) core.Position {
	offset = min(max(offset, 0), len(s.data))
	line := sort.SearchInts(s.lines, offset+1)
	start := s.lines[line-1]
	return core.Position{Line: line, Column: utf8.RuneCount(s.data[start:offset]) + 1}
}

func (s *source) fault(offset int, format string, args ...any) core.Fault {
	at := s.at(offset)
	return core.Fault{At: &at, Message: fmt.Sprintf(format, args...)}
}

// parseJSONC reads JSON with comments. Trailing commas are faults, but do not
// hide what else is wrong; any other mistake of syntax ends the reading. ok
// says whether there is a tree.
func parseJSONC(data []byte) (root hujson.Value, src *source, faults []core.Fault, ok bool) {
	src = newSource(data)
	if len(data) > maxFile {
		return root, src, []core.Fault{{Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), maxFile)}}, false
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return root, src, []core.Fault{src.fault(i, "the file is not UTF-8 text")}, false
		}
		i += n
	}
	text, faults, ok := plain(src)
	if !ok {
		return root, src, faults, false
	}
	var ignored any
	if err := json.Unmarshal(text, &ignored); err != nil {
		offset := len(text)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && int(syntax.Offset) < len(text) {
			offset = int(syntax.Offset) - 1
		}
		return root, src, append(faults, src.fault(offset, "not valid JSON: %s", core.Visible(err.Error(), 120, false))), false
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return root, src, append(faults, core.Fault{Message: "not valid JSON"}), false
	}
	return root, src, faults, true
}

// plain returns the text as JSON, offsets kept; trailing commas are faults. It
// bounds nesting, because what comes after it is recursive.
func plain(src *source) (out []byte, faults []core.Fault, ok bool) {
	text := jsonc.Strip(src.data)
	for _, at := range text.Commas {
		faults = append(faults, src.fault(at, "trailing comma: remove it"))
	}
	switch {
	case text.Open >= 0:
		return nil, append(faults, src.fault(text.Open, "the comment that starts here does not end")), false
	case text.Depth > maxDepth:
		return nil, append(faults, src.fault(text.Deepest, "nested more than %d deep", maxDepth)), false
	}
	return text.Plain, faults, true
}

// pointer appends a name to a JSON pointer.
func pointer(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
