package suggest

import (
	"strings"
	"unicode"
)

// verbs begin steps, beside the first words of the names of the known tools.
const verbs = `read write create make add delete remove list show get fetch search find open close send post update edit
 change move rename copy save store run query commit push merge review check summarize translate download upload count
 lire ecrire creer ajouter supprimer lister afficher chercher envoyer modifier deplacer enregistrer`

// step is a part of an intent that one tool may do.
type step struct {
	text string
	// after is set when everything before must be done first.
	after  bool
	values []value
}

// separator finds where one step may end and the next begin, in a text whose
// values are masked. The first group is one that orders: then, a sentence's end.
var separator = pattern(`(?i)(` +
	`[\s,;.]*(?:\b(?:and|et)\s+)?\b(?:then|after that|afterwards?|finally|puis|ensuite|apr[eè]s [cç]a|enfin)\b[\s,:]*` +
	`|\s*;\s*` +
	`|\s*\n\s*(?:[0-9]+[.)]|[-*])?\s*` +
	`|[.!?]+\s+(?:[0-9]+[.)]\s+)?` +
	`)|(\s*,\s*(?:(?:and|et)\s+)?|\s+(?:and|et)\s+)`)

// steps cuts an intent where a separator stands outside of values. A comma or an
// "and" counts only when what follows begins with a verb.
func (x *Index) steps(intent string) []step {
	values := scan(intent)
	masked := mask(intent, values, '_')
	var out []step
	from, after := 0, false
	add := func(to int) {
		has := within(values, from, to)
		if blank(intent[from:to]) && len(has) == 0 || len(out) == maxSteps {
			return
		}
		out = append(out, step{text: intent[from:to], after: after && len(out) > 0, values: has})
	}
	for _, m := range separator().FindAllStringSubmatchIndex(masked, -1) {
		start, end, orders := m[0], m[1], m[2] >= 0
		if start < from || end <= start || !orders && !x.acts(intent[end:]) {
			continue
		}
		add(start)
		if blank(intent[from:start]) {
			after = after || orders
		} else {
			after = orders
		}
		from = end
	}
	if len(out) < maxSteps {
		add(len(intent))
	}
	return out
}

// blank reports whether a text has no word: nothing, or the number of a list.
func blank(text string) bool { return strings.IndexFunc(text, unicode.IsLetter) < 0 }

// acts reports whether a text begins with a verb.
func (x *Index) acts(text string) bool {
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "")
	}
	for _, w := range cut(text) {
		low := fold(strings.ToLower(w))
		if stopWords[low] {
			continue
		}
		return x.actions[stem(low)]
	}
	return false
}

// within are the values between two places, in places of that part.
func within(values []value, from, to int) []value {
	var out []value
	for _, v := range values {
		if v.start >= from && v.end <= to {
			v.start, v.end = v.start-from, v.end-from
			out = append(out, v)
		}
	}
	return out
}
