package suggest

import (
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a value in a text looks like.
type kind int

const (
	kindWord   kind = iota // a name that the text says is one: a branch named x
	kindQuoted             // "…"
	kindURL
	kindEmail
	kindPath
	kindSlug // owner/name; a path as well
	kindNumber
	kindChannel // #general
)

// value is something in a text that can become an argument.
type value struct {
	kind       kind
	text       string
	start, end int    // bytes, quotes included
	key        string // key=value and key: value
	// before are up to three words before it, the nearest first, lowered.
	before []string
}

// hints are words that a kind of value speaks for in a ranking.
var hints = map[kind][]string{
	kindURL: {"url"}, kindEmail: {"email"}, kindPath: {"file", "path"}, kindChannel: {"channel"},
	kindWord: nil, kindQuoted: nil, kindSlug: {"repository", "path"}, kindNumber: nil,
}

// hollow takes the values out of a text: what they are called says little about
// what is wanted, what they are says something.
func hollow(text string) (plain string, hint []string) {
	found := scan(text)
	for _, v := range found {
		hint = append(hint, hints[v.kind]...)
		if v.kind == kindPath {
			hint = append(hint, content(v.text))
		}
	}
	return mask(text, found, ' '), hint
}

var media = set("png jpg jpeg gif webp bmp tiff svg mp3 wav ogg flac mp4 mov avi webm")

// content is what a file holds, by its name.
func content(path string) string {
	if media[strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])] {
		return "media"
	}
	return "text"
}

// mask writes a byte over the values of a text, except over single words.
func mask(text string, values []value, with byte) string {
	out := []byte(text)
	for _, v := range values {
		if v.kind == kindWord && v.key == "" && with == ' ' {
			continue
		}
		for i := v.start; i < v.end; i++ {
			out[i] = with
		}
	}
	return string(out)
}

// scanner walks over a text from value to value.
type scanner struct {
	text   string
	pos    int
	values []value
	recent []string // words since the start, lowered
	key    string   // "key:" was just read
}

// scan finds the values of a text, in order. They do not overlap.
func scan(text string) []value {
	s := scanner{text: text}
	for s.pos < len(s.text) {
		r, n := utf8.DecodeRuneInString(s.text[s.pos:])
		switch {
		case unicode.IsSpace(r):
			s.pos += n
		case s.quoted(r):
		default:
			s.token()
		}
	}
	return s.values
}

var closing = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '“': '”', '«': '»', '‘': '’'}

// quoted takes a string in quotes. An apostrophe inside a word is none, because
// words are taken whole.
func (s *scanner) quoted(open rune) bool {
	shut, ok := closing[open]
	if !ok {
		return false
	}
	from := s.pos + utf8.RuneLen(open)
	for i := from; i < len(s.text); {
		at := strings.IndexRune(s.text[i:], shut)
		if at < 0 {
			break
		}
		end := i + at + utf8.RuneLen(shut)
		next, _ := utf8.DecodeRuneInString(s.text[end:])
		if shut == '\'' && end < len(s.text) && (unicode.IsLetter(next) || unicode.IsDigit(next)) {
			i = end // an apostrophe: 'it's so'
			continue
		}
		s.add(kindQuoted, strings.TrimSpace(s.text[from:i+at]), s.pos, end)
		s.pos = end
		return true
	}
	return false
}

func (s *scanner) add(k kind, text string, start, end int) {
	v := value{kind: k, text: text, start: start, end: end, key: s.key}
	for i := len(s.recent) - 1; i >= 0 && len(v.before) < 3; i-- {
		v.before = append(v.before, s.recent[i])
	}
	s.values, s.key = append(s.values, v), ""
}

// assignment is key=value; the value may be quoted.
var assignment = pattern(`^([A-Za-z_][A-Za-z0-9_.-]*)=`)

// token takes what stands up to the next space.
func (s *scanner) token() {
	start := s.pos
	end := start + strings.IndexFunc(s.text[start:], unicode.IsSpace)
	if end < start {
		end = len(s.text)
	}
	if m := assignment().FindString(s.text[start:end]); m != "" && start+len(m) < len(s.text) {
		s.key, s.pos = strings.TrimSuffix(m, "="), start+len(m)
		if r, _ := utf8.DecodeRuneInString(s.text[s.pos:]); s.quoted(r) {
			s.values[len(s.values)-1].start = start
			return
		}
		if s.pos < end {
			text := strings.TrimRight(s.text[s.pos:end], ",;.!?)")
			s.add(kindOf(text), text, start, s.pos+len(text))
		}
		s.key, s.pos = "", end
		return
	}
	s.pos = end
	raw := s.text[start:end]
	text := strings.TrimLeft(raw, "([{")
	start += len(raw) - len(text)
	text = strings.TrimRight(text, ",;.!?)]}")
	if name, ok := strings.CutSuffix(text, ":"); ok {
		s.word(name, start)
		s.key = name
		return
	}
	s.word(text, start)
	if strings.ContainsAny(raw[len(raw)-1:], ".;") {
		s.recent, s.key = nil, "" // a sentence has ended
	}
}

// word takes one word: a value by what it looks like, by what was said before it,
// or a word of the text.
func (s *scanner) word(text string, start int) {
	if text == "" {
		return
	}
	k := kindOf(text)
	if k == kindNumber && s.numbering(start+len(text)) {
		return
	}
	if k == kindWord && s.key == "" && !s.announced(text) {
		s.recent = append(s.recent, strings.ToLower(text))
		return
	}
	shown := text
	if k == kindNumber || k == kindChannel {
		shown = strings.TrimPrefix(text, "#")
	}
	s.add(k, shown, start, start+len(text))
	s.recent = append(s.recent, strings.ToLower(text))
}

// numbering reports whether a number is that of a list: "1. read".
func (s *scanner) numbering(end int) bool {
	line := s.text[:end]
	if i := strings.LastIndexByte(line, '\n'); i >= 0 {
		line = line[i+1:]
	}
	return end < len(s.text) && (s.text[end] == '.' || s.text[end] == ')') && strings.TrimLeft(line, " \t0123456789") == ""
}

// naming are words after which a name stands; nouns are those after which one
// stands directly ("branch main").
var (
	naming = set("named called titled labelled labeled nomme appele")
	nouns  = set("branch table channel directory folder repository repo database branche dossier depot user label tag")
)

// announced reports whether the word before says that this one is a name.
func (s *scanner) announced(text string) bool {
	if len(s.recent) == 0 || stopWords[strings.ToLower(text)] || !plainName().MatchString(text) {
		return false
	}
	last := fold(s.recent[len(s.recent)-1])
	if len(s.recent) > 1 && holding[last] && held[fold(s.recent[len(s.recent)-2])] {
		return !everywhere[fold(text)]
	}
	return naming[last] || nouns[last]
}

// What a folder is named after: "the files of src", unless that is all there is.
var (
	holding    = set("of in under inside below within de dans sous")
	held       = set("file files folders directories content contents entries fichiers dossiers contenu")
	everywhere = set("workspace project repo repository folder directory root here projet depot dossier ici")
)

// held reports whether a value is a folder, by the words before it.
func (v value) held() bool {
	return v.kind == kindWord && len(v.before) > 1 && holding[fold(v.before[0])] && held[fold(v.before[1])]
}

var (
	plainName = pattern(`^[\p{L}\p{N}_][\p{L}\p{N}_.-]*$`)
	numeric   = pattern(`^#?-?[0-9]{1,15}(\.[0-9]{1,15})?$`)
	channel   = pattern(`^#[A-Za-z][\w-]*$`)
	slug      = pattern(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)
	fileName  = pattern(`^[\p{L}\p{N}_.*-]*[\p{L}_*-][\p{L}\p{N}_.*-]*\.[A-Za-z][A-Za-z0-9]{0,7}$`)
	hidden    = pattern(`^\.[A-Za-z][\w.-]+$`)
	drive     = pattern(`^[A-Za-z]:\\`)
)

// both are words that people join with a slash, and abbreviations with dots.
var both = []string{"and/or", "either/or", "yes/no", "read/write", "input/output", "e.g", "i.e", "p.ex", "etc"}

func kindOf(text string) kind {
	low := strings.ToLower(text)
	switch {
	case slices.Contains(both, low):
		return kindWord
	case strings.Contains(text, "://"):
		return kindURL
	case numeric().MatchString(text):
		return kindNumber
	case channel().MatchString(text):
		return kindChannel
	case isEmail(text):
		return kindEmail
	case slug().MatchString(text):
		if fileName().MatchString(text[strings.IndexByte(text, '/')+1:]) {
			return kindPath
		}
		return kindSlug
	case strings.HasPrefix(text, "/") && len(text) > 1, strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"),
		strings.HasPrefix(text, "~/"), strings.Count(text, "/") > 0 && len(text) > 2, drive().MatchString(text),
		fileName().MatchString(text), hidden().MatchString(text):
		return kindPath
	}
	return kindWord
}

func isEmail(text string) bool {
	at := strings.IndexByte(text, '@')
	if at <= 0 || !strings.Contains(text[at:], ".") {
		return false
	}
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text
}
