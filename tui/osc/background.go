package osc

import (
	"bytes"
	"strconv"
	"strings"
)

// AskBackground asks a terminal for its background colour. It answers, if it knows how
// to, among the keys: see Answers.
func (t Terminal) AskBackground() string {
	if t.Silent {
		return ""
	}
	return osc + "11;?" + st
}

// answerBegin is how the answer to AskBackground begins, and maxAnswer how long it can
// be, in bytes.
const (
	answerBegin = osc + "11;rgb:"
	maxAnswer   = 64
)

// Answers takes the answer to AskBackground out of what is read from a terminal, so
// that it is no key press. It is used by the one goroutine that reads.
type Answers struct {
	// Told is called with the answer: whether the background is light.
	Told func(light bool)
	held []byte // the begin of an answer, whose rest is still to come
	over bool   // it was given: one answer is taken
}

// Take returns what of b is not the answer. What looks like its begin is held back
// until the next call; an escape by itself never is.
func (a *Answers) Take(b []byte) []byte {
	if a.over {
		return b
	}
	all := b
	if len(a.held) > 0 {
		all = append(a.held, b...)
		a.held = nil
	}
	i := bytes.Index(all, []byte(answerBegin))
	if i < 0 {
		n := prefixed(all)
		a.held = append([]byte(nil), all[len(all)-n:]...)
		return all[:len(all)-n]
	}
	rest := all[i+len(answerBegin):]
	end, size := bytes.IndexByte(rest, '\a'), 1
	if j := bytes.Index(rest, []byte(st)); j >= 0 && (end < 0 || j < end) {
		end, size = j, len(st)
	}
	if end < 0 {
		if len(rest) > maxAnswer {
			a.over = true
			return all
		}
		a.held = append([]byte(nil), all[i:]...)
		return all[:i]
	}
	a.over = true
	if light, ok := isLight(string(rest[:end])); ok && a.Told != nil {
		a.Told(light)
	}
	return append(append([]byte(nil), all[:i]...), rest[end+size:]...)
}

// prefixed is how much of the end of b may be the begin of an answer. Two bytes are a
// key press as well, alt+].
func prefixed(b []byte) int {
	for n := min(len(answerBegin)-1, len(b)); n >= 3; n-- {
		if strings.HasPrefix(answerBegin, string(b[len(b)-n:])) {
			return n
		}
	}
	return 0
}

// isLight reports whether a colour, "ffff/ffff/ffff", is nearer to white than to black
// for the eye.
func isLight(colour string) (light, ok bool) {
	parts := strings.Split(colour, "/")
	if len(parts) != 3 {
		return false, false
	}
	sum := 0.0
	for i, weight := range []float64{0.299, 0.587, 0.114} {
		v, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil || len(parts[i]) > 4 {
			return false, false
		}
		sum += weight * float64(v) / float64(uint64(1)<<(4*len(parts[i]))-1)
	}
	return sum > 0.5, true
}
