package sandbox

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// mapMark starts the last line of a script: where its text came from, in the
// mappings format of source maps. It is kept in the script, so that a replay
// by a newer pml, whose stripping may differ, still reports the right places.
const mapMark = "//# pml-map="

// segment says that the text of the script from (line, col) on came from
// (srcLine, srcCol). All count from 0; columns in UTF-16 units.
type segment struct {
	col, srcLine, srcCol int
}

// sourceMap maps positions of a script to the user's source.
type sourceMap struct {
	lines [][]segment
}

// splitMap cuts the mappings off a script.
func splitMap(script string) (body, mappings string) {
	i := strings.LastIndex(script, "\n"+mapMark)
	if i < 0 {
		return script, ""
	}
	return script[:i+1], strings.TrimRight(script[i+1+len(mapMark):], "\r\n")
}

// joinMap appends a map to the body that it belongs to.
func joinMap(body string, m *sourceMap) string {
	return body + mapMark + encodeMappings(m.lines) + "\n"
}

// newSourceMap reads mappings. What cannot be read ends the map there: a wrong
// position is no reason to fail a run.
func newSourceMap(mappings string) *sourceMap {
	m := &sourceMap{}
	srcLine, srcCol := 0, 0
	for line := range strings.SplitSeq(mappings, ";") {
		var segs []segment
		col := 0
		for field := range strings.SplitSeq(line, ",") {
			var v [5]int
			n := decodeVLQ(field, &v)
			if n == 0 {
				continue
			}
			col += v[0]
			if n < 4 {
				continue
			}
			srcLine += v[2]
			srcCol += v[3]
			segs = append(segs, segment{col, srcLine, srcCol})
		}
		m.lines = append(m.lines, segs)
	}
	return m
}

// toSource maps a position (from 1) of the script. Without a map the position
// is already the user's.
func (m *sourceMap) toSource(p core.Position) core.Position {
	if m == nil || len(m.lines) == 0 || p.Line < 1 {
		return p
	}
	if p.Line > len(m.lines) {
		return core.Position{}
	}
	segs := m.lines[p.Line-1]
	i, exact := slices.BinarySearchFunc(segs, p.Column-1, func(s segment, col int) int { return s.col - col })
	if !exact {
		i--
	}
	if i < 0 {
		return core.Position{}
	}
	return core.Position{Line: segs[i].srcLine + 1, Column: segs[i].srcCol + 1}
}

// appendVLQ writes one number.
func appendVLQ(b []byte, v int) []byte {
	u := v << 1
	if v < 0 {
		u = -v<<1 | 1
	}
	for {
		d := u & 31
		u >>= 5
		if u > 0 {
			d |= 32
		}
		b = append(b, base64Digits[d])
		if u == 0 {
			return b
		}
	}
}

// encodeMappings writes lines of segments.
func encodeMappings(lines [][]segment) string {
	var b []byte
	srcLine, srcCol := 0, 0
	for i, segs := range lines {
		if i > 0 {
			b = append(b, ';')
		}
		col := 0
		for j, s := range segs {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendVLQ(b, s.col-col)
			b = append(b, 'A')
			b = appendVLQ(b, s.srcLine-srcLine)
			b = appendVLQ(b, s.srcCol-srcCol)
			col, srcLine, srcCol = s.col, s.srcLine, s.srcCol
		}
	}
	return string(b)
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// decodeVLQ reads the numbers of one segment, at most five, and says how many.
func decodeVLQ(s string, out *[5]int) int {
	n, value, shift := 0, 0, 0
	for i := 0; i < len(s) && n < len(out); i++ {
		d := strings.IndexByte(base64Digits, s[i])
		if d < 0 || shift > 30 {
			return n
		}
		value |= d & 31 << shift
		if d&32 != 0 {
			shift += 5
			continue
		}
		if value&1 != 0 {
			out[n] = -(value >> 1)
		} else {
			out[n] = value >> 1
		}
		n, value, shift = n+1, 0, 0
	}
	return n
}
