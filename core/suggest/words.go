package suggest

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxWord bounds a word; what is longer is no word of a language.
const maxWord = 40

// words cuts a text into stemmed words: at everything that is no letter or digit,
// and at camel case. Words that say nothing are left out.
func words(text string) []string {
	var out []string
	for _, w := range cut(text) {
		w = fold(strings.ToLower(w))
		if len(w) > maxWord || stopWords[w] {
			continue
		}
		if s := stem(w); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// cut splits a text into runs of letters and digits; "readFile" is two, and so is
// "HTTPServer".
func cut(text string) []string {
	var out []string
	start := -1
	var prev rune
	end := func(i int) {
		if start >= 0 {
			out = append(out, text[start:i])
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && (unicode.IsLower(prev) || unicode.IsUpper(prev) && lowerNext(text[i+utf8.RuneLen(r):])):
			end(i)
			start = i
		}
		prev = r
	}
	end(len(text))
	return out
}

func lowerNext(rest string) bool {
	r, n := utf8.DecodeRuneInString(rest)
	return n > 0 && unicode.IsLower(r)
}

// fold takes the accents of French and its neighbours off lowered text.
func fold(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return accents.Replace(s)
		}
	}
	return s
}

var accents = strings.NewReplacer("à", "a", "â", "a", "ä", "a", "ç", "c", "é", "e", "è", "e", "ê", "e", "ë", "e",
	"î", "i", "ï", "i", "ô", "o", "ö", "o", "ù", "u", "û", "u", "ü", "u", "œ", "oe")

// stem takes plurals and the endings -ing and -ed off an English word, and a last
// e, so that "files", "creating" and "created" meet "file" and "create".
func stem(w string) string {
	switch n := len(w); {
	case n > 4 && (strings.HasSuffix(w, "ies") || strings.HasSuffix(w, "ied")):
		return w[:n-3] + "y"
	case n > 5 && strings.HasSuffix(w, "ing") && hasVowel(w[:n-3]):
		w = undouble(w[:n-3])
	case n > 4 && strings.HasSuffix(w, "ed") && hasVowel(w[:n-2]):
		w = undouble(w[:n-2])
	case n > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "xes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes")):
		w = w[:n-2]
	case n > 3 && w[n-1] == 's' && w[n-2] != 's' && w[n-2] != 'u' && w[n-2] != 'i':
		w = w[:n-1]
	}
	if n := len(w); n > 3 && w[n-1] == 'e' {
		w = w[:n-1]
	}
	return w
}

func hasVowel(s string) bool { return strings.ContainsAny(s, "aeiouy") }

// undouble makes "runn" of "running" into "run".
func undouble(s string) string {
	n := len(s)
	if n > 3 && s[n-1] == s[n-2] && !strings.ContainsRune("lsz", rune(s[n-1])) {
		return s[:n-1]
	}
	return s
}

// set makes a set of words as they stand, stems one of stemmed words.
func set(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

func stems(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[stem(w)] = true
	}
	return out
}

// stopWords say nothing about what is wanted.
var stopWords = set(`a an the this that these those it its i me my we our us you your he she they them their
 is are was were be been being am do does did done has have had can could will would shall should may might must
 of in on at by for with from to into onto as or and but if then than so also please just only now very all any
 some each every there here what who whom whose when where how why not no nor too
 want need like let lets using use used via about after before again up out over under
 le la les un une des du de et ou puis ensuite dans sur avec pour par ce cette ces mon ma mes ton ta tes son sa ses est sont`)

// synonyms are groups of words that mean much the same in names of tools. Kept
// small: each one helps some intents and blurs others.
var synonyms = sync.OnceValue(func() map[string][]string {
	return groups(
		"read open view cat load lire contents",
		"get fetch retrieve obtain download",
		"list ls enumerate show display lister which",
		"search find grep locate query lookup look chercher trouver",
		"write save store put ecrire",
		"create make add new creer ajouter open",
		"delete remove erase drop rm destroy forget supprimer",
		"edit change modify update replace modifier",
		"update close reopen set",
		"move rename mv deplacer renommer",
		"send post publish envoyer",
		"directory folder dir dossier repertoire",
		"file document fichier",
		"repository repo depot",
		"message msg chat",
		"image picture photo media",
		"url link page website site web webpage",
		"database db",
		"history log recent last",
		"ticket issue bug",
		"difference diff compare",
		"person user member people",
		"remember memory memorize",
		"metadata info information size detail stat big large",
	)
})

// pattern is a regular expression that is compiled when it is first used: most
// commands of pml suggest nothing.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func groups(lists ...string) map[string][]string {
	out := map[string][]string{}
	for _, list := range lists {
		var all []string
		for w := range strings.FieldsSeq(list) {
			all = append(all, stem(w))
		}
		for _, w := range all {
			for _, other := range all {
				if other != w {
					out[w] = append(out[w], other)
				}
			}
		}
	}
	return out
}

// nameWords are the stemmed words of a name, all of them: "to" is one.
func nameWords(name string) []string {
	var out []string
	for _, w := range cut(name) {
		out = append(out, stem(fold(strings.ToLower(w))))
	}
	return out
}
