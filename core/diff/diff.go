// Package diff compares texts for a person to read. It is pure.
package diff

import (
	"fmt"
	"slices"
	"strings"
)

// Part is one line or word of a comparison: in both (' '), only in the old one
// ('-') or only in the new one ('+').
type Part struct {
	Sign byte
	Text string
}

// maxTable bounds the work of a comparison: larger middles are shown as replaced
// whole.
const maxTable = 4 << 20

// Compare compares two lists by their longest common subsequence.
func Compare(old, now []string) []Part {
	out := make([]Part, 0, max(len(old), len(now)))
	head := 0
	for head < len(old) && head < len(now) && old[head] == now[head] {
		out = append(out, Part{' ', old[head]})
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(now)-head && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	out = middle(out, old[head:len(old)-tail], now[head:len(now)-tail])
	for _, text := range old[len(old)-tail:] {
		out = append(out, Part{' ', text})
	}
	return out
}

// middle compares what lies between the common ends.
func middle(out []Part, old, now []string) []Part {
	width := len(now) + 1
	var longest []int32 // [i*width+j]: of old[i:] and now[j:]
	if len(old)*len(now) <= maxTable {
		longest = make([]int32, (len(old)+1)*width)
	}
	for i := range slices.Backward(old[:min(len(old), len(longest))]) {
		for j := range slices.Backward(now) {
			if old[i] == now[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case longest != nil && i < len(old) && j < len(now) && old[i] == now[j]:
			out = append(out, Part{' ', old[i]})
			i, j = i+1, j+1
		case j == len(now) || i < len(old) && (longest == nil || longest[(i+1)*width+j] >= longest[i*width+j+1]):
			out = append(out, Part{'-', old[i]})
			i++
		default:
			out = append(out, Part{'+', now[j]})
			j++
		}
	}
	return out
}

// around is how many unchanged lines are shown at both sides of a change.
const around = 3

// Lines shows what changed between two texts: lines with "-" are gone, those
// with "+" are new, those with " " stand around them; "@@ line n @@" says where
// in the new text a part begins.
func Lines(before, after string) string {
	parts := Compare(split(before), split(after))
	show := make([]bool, len(parts))
	for i, p := range parts {
		if p.Sign == ' ' {
			continue
		}
		for k := max(0, i-around); k <= min(len(parts)-1, i+around); k++ {
			show[k] = true
		}
	}
	var b strings.Builder
	line := 1
	for i, p := range parts {
		if show[i] {
			if i == 0 || !show[i-1] {
				fmt.Fprintf(&b, "@@ line %d @@\n", line)
			}
			b.WriteByte(p.Sign)
			b.WriteString(p.Text + "\n")
		}
		if p.Sign != '-' {
			line++
		}
	}
	return b.String()
}

func split(s string) []string {
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
