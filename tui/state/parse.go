package state

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/casys-ai/pml/core"
)

// shownRunes is how much of a wrong word an error repeats.
const shownRunes = 40

// ParseFilter reads a filter. With keys only those are allowed, as RunKeys or
// EventKeys. The error is a core.Error of CodeInvalidArguments, one line that is
// safe to show: it names the word that is wrong and what could stand there. A
// word that is not complete yet is no error.
func ParseFilter(text string, keys ...Key) (Filter, error) {
	if len(keys) == 0 {
		keys = allKeys
	}
	f := Filter{text: text}
	for _, w := range splitWords(text) {
		t, whole, err := parseTerm(w, keys)
		if err != nil {
			return Filter{}, err
		}
		if whole {
			f.terms = append(f.terms, t)
		}
	}
	return f, nil
}

// filterWord is a word of a filter: plain is the part before the first quote,
// in which operators count, text the whole without quotes.
type filterWord struct{ text, plain string }

// splitWords splits at blanks that are not between double quotes. A quote that
// is not closed goes to the end.
func splitWords(text string) []filterWord {
	var words []filterWord
	var b strings.Builder
	quoted, begun, plain := false, false, -1
	end := func() {
		if begun {
			w := filterWord{text: b.String(), plain: b.String()}
			if plain >= 0 {
				w.plain = w.text[:plain]
			}
			words = append(words, w)
		}
		b.Reset()
		begun, plain = false, -1
	}
	for _, r := range text {
		switch {
		case r == '"':
			if !begun || plain < 0 {
				plain = b.Len()
			}
			quoted, begun = !quoted, true
		case unicode.IsSpace(r) && !quoted:
			end()
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	end()
	return words
}

// parseTerm reads one word; whole is false while it has no value.
func parseTerm(w filterWord, keys []Key) (t term, whole bool, err error) {
	text, plain := w.text, w.plain
	if rest, ok := strings.CutPrefix(plain, "!"); ok {
		t.not, text, plain = true, text[1:], rest
	}
	at := strings.IndexAny(plain, ":~<>=")
	if at < 0 {
		if text == "" {
			return t, false, nil
		}
		t.values = []string{strings.ToLower(text)}
		return t, true, nil
	}
	t.key = Key(strings.ToLower(text[:at]))
	if t.key == "workflow" { // as it was called
		t.key = KeyRun
	}
	op, value := text[at], text[at+1:]
	if !slices.Contains(keys, t.key) {
		return t, false, unknownKey(w.text, string(t.key), keys)
	}
	if rest, ok := strings.CutPrefix(value, "!"); ok && op != '<' && op != '>' {
		t.not, value = !t.not, rest
	}
	if (op == '<' || op == '>') != (t.key == KeyAge) {
		return t, false, wrongSign(w.text, t.key)
	}
	if t.key == KeyAge {
		t.younger = op == '<'
		whole, err = t.parseAge(w.text, value)
		return t, whole, err
	}
	t.within = op == '~'
	whole, err = t.parseValues(w.text, value)
	return t, whole, err
}

func (t *term) parseValues(word, value string) (whole bool, err error) {
	known := knownWords(t.key)
	for v := range strings.SplitSeq(strings.ToLower(value), ",") {
		if t.not {
			v = strings.TrimPrefix(v, "!") // type:!a,!b means the same as type:!a,b
		}
		if v == "" {
			continue
		}
		begins := func(k string) bool { return strings.HasPrefix(k, v) || t.within && strings.Contains(k, v) }
		if known != nil && !slices.ContainsFunc(known, begins) {
			return false, wrongWord(word, "there is no "+string(t.key)+" "+strconv.Quote(v)+core.Suggest(v, known), strings.Join(known, ", "))
		}
		t.values, t.globs = append(t.values, v), append(t.globs, strings.Split(v, "*"))
	}
	return len(t.values) > 0, nil
}

// parseAge reads a length of time: a whole number with s, m, h, d or w behind.
func (t *term) parseAge(word, value string) (whole bool, err error) {
	if value == "" || strings.Trim(value, "0123456789") == "" {
		return false, nil // the unit is yet to come
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	unit, ok := units[value[len(value)-1]|0x20]
	n, err := strconv.ParseInt(value[:len(value)-1], 10, 32)
	if !ok || err != nil || n < 0 || time.Duration(n) > time.Duration(1<<62)/unit {
		return false, wrongWord(word, "a length of time is a whole number and s, m, h, d or w", "age<30s, age<5m, age>2h, age>1d")
	}
	t.age = time.Duration(n) * unit
	return true, nil
}

// knownWords are the values that there are of a key, nil for free text.
func knownWords(k Key) []string {
	switch k {
	case KeyStatus:
		return texts(core.RunStates)
	case KeySide:
		return []string{string(core.SideClient), string(core.SideServer)}
	case KeyKind:
		return []string{string(core.KindCode), string(core.KindDAG)}
	case KeyType:
		return texts(core.EventTypes)
	default:
		return nil
	}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func unknownKey(word, key string, keys []Key) *core.Error {
	names := texts(keys)
	return wrongWord(word, "there is nothing called "+strconv.Quote(core.Visible(key, shownRunes, false))+core.Suggest(key, names), strings.Join(names, ", "))
}

func wrongSign(word string, key Key) *core.Error {
	if key == KeyAge {
		return wrongWord(word, "an age is compared with < or >", "age<1h, age>2d")
	}
	return wrongWord(word, "only an age is compared with < or >", string(key)+":, "+string(key)+"~")
}

func wrongWord(word, why, allowed string) *core.Error {
	return core.Errorf(core.CodeInvalidArguments, "%s: %s; possible: %s", core.Visible(word, shownRunes, false), core.Visible(why, 0, false), allowed)
}
