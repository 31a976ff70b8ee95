package core

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns foreign text made safe for a screen: control characters,
// bidirectional and invisible marks and broken UTF-8 are shown as escapes, and
// the text is cut to at most max runes (0: no limit), saying how much is gone.
// Newlines and tabs stay when multiline is set.
func Visible(s string, max int, multiline bool) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if max > 0 && n == max {
			fmt.Fprintf(&b, "… (%d more bytes)", len(s)-i)
			break
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case multiline && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Hidden(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
		n++
	}
	return b.String()
}

// Hidden reports whether a rune changes or hides what a person sees: control and
// format characters (zero width, bidirectional), separators of lines, what is
// drawn as nothing (fillers of Hangul, the empty Braille pattern, variation
// selectors, tags) or as anything (private use), and what is no character.
func Hidden(r rune) bool {
	switch {
	case r < 0x80:
		return r < 0x20 || r == 0x7f
	case r == 0x2800, r == 0x1d159, r == 0x16fe4:
		return true
	case r >= 0xe0000 && r <= 0xe0fff, r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Nearest returns up to n of the names that are most like name, best first;
// none that differs by more than about a third of its letters.
func Nearest(name string, names []string, n int) []string {
	type scored struct {
		name string
		d    int
	}
	var all []scored
	low := strings.ToLower(name)
	for _, c := range names {
		if c == name {
			continue
		}
		lc := strings.ToLower(c)
		d := editDistance(low, lc)
		if d <= max(2, len(name)/3) || len(low) >= 3 && strings.Contains(lc, low) {
			all = append(all, scored{c, d})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].d != all[j].d {
			return all[i].d < all[j].d
		}
		return all[i].name < all[j].name
	})
	var out []string
	for _, s := range all {
		if len(out) < n {
			out = append(out, s.name)
		}
	}
	return out
}

// Suggest returns " (did you mean a, b?)" for the nearest names, or nothing.
func Suggest(name string, names []string) string {
	near := Nearest(name, names, 3)
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(near, ", ") + "?)"
}

// editDistance is the Damerau-Levenshtein distance (adjacent swaps count one).
func editDistance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	prev2, prev, cur := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		cur[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(rb)]
}
