package redact

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// form is a text by which a value can appear.
type form struct {
	text string
	// wraps: encoders break it into lines, so white space may stand in it.
	wraps bool
}

// formsOf returns the texts by which a value can appear, once escapes are
// undone (see unescape). A value that looks escaped itself is found in its last
// form, too, since a text is not undone by exactly as many steps as it was
// escaped by.
func formsOf(value string) []form {
	var forms []form
	for _, text := range []string{value, strings.ReplaceAll(value, " ", "+")} {
		plain := undone(text)
		for _, t := range []string{text, plain, latin(text), latin(plain)} {
			if f := (form{text: t}); utf8.RuneCountInString(t) >= minSecret && !slices.Contains(forms, f) {
				forms = append(forms, f)
			}
		}
	}
	forms = append(forms, hexForms(value)...)
	return append(forms, base64Forms(value)...)
}

// latin is a text in which the characters of Latin-1 are one byte each: what \xe9 of
// JavaScript and Python and %E9 of old pages are once undone.
func latin(text string) string {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r >= utf8.RuneSelf && r <= 0xff {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// undone is a text of which no escape is left.
func undone(text string) string {
	for {
		v, ok := unescape(text, allEscapes, false)
		if !ok {
			return text
		}
		text = v.text
	}
}

// hexForms are the digits of a value's bytes, as they are and in pairs.
func hexForms(value string) []form {
	lower := hex.EncodeToString([]byte(value))
	var forms []form
	for _, digits := range []string{lower, strings.ToUpper(lower)} {
		pairs := make([]string, 0, len(value))
		for i := 0; i < len(digits); i += 2 {
			pairs = append(pairs, digits[i:i+2])
		}
		forms = append(forms, form{digits, true}, form{strings.Join(pairs, ":"), false}, form{strings.Join(pairs, " "), false})
	}
	return forms
}

// base64Forms are what a value looks like within base64, at each of the three
// places where it can begin in a group, less the digits that it shares with
// its neighbours; so "user:value" of an Authorization header is found, too.
func base64Forms(value string) []form {
	var forms []form
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 {
			text := enc.EncodeToString(append(make([]byte, lead), value...))
			from := (lead*8 + 5) / 6
			to := (lead + len(value)) * 8 / 6
			forms = append(forms, form{text[from:to], true})
		}
	}
	return forms
}
