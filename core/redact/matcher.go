package redact

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// matcher finds all forms of all values in one pass over a text. It looks at
// four bytes of every second place only: every form is at least eight long, so
// four bytes at its first or second place are among those. Whether they begin
// a form is looked up in a bitmap that stays in the processor's cache, and for
// the few that do the form is compared as a whole.
type matcher struct {
	forms   []form
	marks   []string // of forms
	anchors []anchor // sorted by four
	seen    []uint64 // bitmap of hashes of four
	shift   int
	first   [256][]int32 // forms by their first byte
}

// anchor is a place within a form, and the four bytes that stand there.
type anchor struct {
	four uint32
	form int32
	at   int32
}

const (
	window = 4
	stride = 2
	// A form that is broken into lines is found by five digits in a row: of its
	// first ten some five are, before the end of a line or after it.
	wrapAnchors = 6
	minSeenBits = 13
	maxSeenBits = 23
)

func newMatcher(marks map[form]string) *matcher {
	m := &matcher{}
	for f, mark := range marks {
		n := stride
		if f.wraps {
			n = wrapAnchors
		}
		for at := range min(n, len(f.text)-window+1) {
			m.anchors = append(m.anchors, anchor{binary.LittleEndian.Uint32([]byte(f.text[at : at+window])), int32(len(m.forms)), int32(at)})
		}
		m.first[f.text[0]] = append(m.first[f.text[0]], int32(len(m.forms)))
		m.forms, m.marks = append(m.forms, f), append(m.marks, mark)
	}
	slices.SortFunc(m.anchors, func(a, b anchor) int { return cmp.Compare(a.four, b.four) })
	size := min(max(bits.Len(uint(len(m.anchors)))+5, minSeenBits), maxSeenBits)
	m.shift = 32 - size
	m.seen = make([]uint64, 1<<(size-6))
	for _, a := range m.anchors {
		h := m.hash(a.four)
		m.seen[h>>6] |= 1 << (h & 63)
	}
	return m
}

func (m *matcher) hash(four uint32) uint32 { return four * 2654435761 >> m.shift }

// find returns where forms stand in a text.
func (m *matcher) find(text string) (found []span) {
	for i := 0; i+window <= len(text); i += stride {
		four := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16 | uint32(text[i+3])<<24
		h := m.hash(four)
		if m.seen[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		n, ok := slices.BinarySearchFunc(m.anchors, four, func(a anchor, four uint32) int { return cmp.Compare(a.four, four) })
		for ; ok && n < len(m.anchors) && m.anchors[n].four == four; n++ {
			a := m.anchors[n]
			if from, to := m.forms[a.form].around(text, i, int(a.at)); to > 0 {
				found = append(found, span{from, to, m.marks[a.form]})
			}
		}
	}
	return found
}

// around returns where the form stands in a text whose byte i is the form's
// byte at; 0, 0 when it does not.
func (f form) around(text string, i, at int) (from, to int) {
	if !f.wraps {
		from, to = i-at, i-at+len(f.text)
		if from < 0 || to > len(text) || text[from:to] != f.text {
			return 0, 0
		}
		return from, to
	}
	from = i
	for n := at - 1; n >= 0; n-- {
		for from--; from >= 0 && isSpace(text[from]); from-- {
		}
		if from < 0 || text[from] != f.text[n] {
			return 0, 0
		}
	}
	to = i
	for n := at; n < len(f.text); n++ {
		for to < len(text) && isSpace(text[to]) {
			to++
		}
		if to == len(text) || text[to] != f.text[n] {
			return 0, 0
		}
		to++
	}
	return from, to
}

func isSpace(c byte) bool { return c == '\n' || c == '\r' || c == ' ' || c == '\t' }
