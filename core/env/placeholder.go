package env

import (
	"slices"
	"strings"
)

// Words of which placeholders are made.
var (
	wholePlaceholders = []string{
		"todo", "tbd", "fixme", "change-me", "changeme", "change-this", "changethis", "placeholder", "example",
		"insert-here", "replace-me", "replaceme", "replace-this", "fake-key", "test-key", "dummy-key",
		"yourapikey", "yourkey", "yourtoken", "api-key-here", "key-here", "token-here", "null", "undefined", "(null)",
	}
	keyWords   = []string{"api", "key", "token", "secret", "password", "access", "apikey", "auth", "pat"}
	fakeWords  = []string{"fake", "test", "example", "dummy", "sample", "placeholder"}
	orderWords = []string{"insert", "enter", "paste", "put", "add", "replace", "set", "fill"}
	noteWords  = []string{"todo", "tbd", "fixme"}
)

// placeholder reports whether a value stands for a key that nobody has filled
// in: your-key-here, xxxx, sk-..., <token>, TODO, CHANGE_ME, null and the like. Only the
// whole value counts: real keys may well contain such words.
func placeholder(value string) bool {
	s := strings.ToLower(strings.Trim(strings.TrimSpace(value), `"'`))
	switch {
	case len(s) >= 2 && s[0] == '<' && s[len(s)-1] == '>':
		return true
	case len(s) >= 3 && strings.Trim(s, "*") == "", len(s) >= 3 && strings.Trim(s, ".") == "", s == "…":
		return true
	case strings.Count(s, "x") >= 3 && strings.Trim(s, "x-_.") == "":
		return true
	case isCutOff(s), isNote(s):
		return true
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == '.' })
	if slices.Contains(wholePlaceholders, strings.Join(words, "-")) {
		return true
	}
	if len(words) < 2 || !plainWords(words) {
		return false
	}
	first, last := words[0], words[len(words)-1]
	isKey := func(w string) bool { return slices.Contains(keyWords, w) }
	switch {
	case first == "your":
		// your-github-token-here, your-api-key
		return last == "here" || isKey(last)
	case slices.Contains(orderWords, first):
		// insert-token-here, replace-with-your-key, put-your-key-here
		return last == "here" || last == "me" || slices.Contains(words, "your")
	case slices.Contains(fakeWords, first):
		// fake-api-key, test-token
		return !slices.ContainsFunc(words[1:], func(w string) bool { return !isKey(w) })
	}
	return false
}

// isCutOff reports whether a value only shows how a key begins: sk-..., ghp_….
// A pattern of files such as ./... is none.
func isCutOff(s string) bool {
	return !strings.Contains(s, "/") && (strings.HasSuffix(s, "...") || strings.HasSuffix(s, "…"))
}

// isNote reports whether a value is a note to whoever should fill it in, such
// as "TODO: set".
func isNote(s string) bool {
	word, _, ok := strings.Cut(s, ":")
	return ok && slices.Contains(noteWords, strings.TrimSpace(word))
}

// plainWords reports whether all words are short and without digits, as those
// of an instruction are and those of a key are not.
func plainWords(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return len(w) > 14 || strings.ContainsAny(w, "0123456789")
	})
}
