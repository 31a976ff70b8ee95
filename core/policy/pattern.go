package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/where"
)

// maxPattern bounds a pattern's length in bytes; names of tools are shorter.
const maxPattern = 512

// maxDepth bounds the nesting of braces.
const maxDepth = 8

// pattern is one compiled glob.
type pattern struct {
	text string
	list string
	// literal is the text before the first wildcard, unescaped. For a pattern
	// that names a whole server it ends with the colon.
	literal string
	// exact patterns have no wildcard and name server and tool.
	exact bool
	// server is the server's name when that half has no wildcard.
	server string
	re     *regexp.Regexp // nil when exact
	where  *where.Expression
}

func (p *pattern) matches(tool string) bool {
	if p.re == nil {
		return p.literal == tool
	}
	return p.re.MatchString(tool)
}

// compile parses a glob. Matching is done by package regexp, whose time is
// linear in the length of what is matched, whatever the pattern.
func compile(list, text string) (*pattern, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	s := scanner{rest: text, literal: true}
	if err := s.run(); err != nil {
		return nil, err
	}
	p := &pattern{text: text, list: list, literal: s.prefix.String()}
	if !s.colon {
		s.re.WriteString(`(?::.*)?`)
		if s.literal {
			p.server = p.literal
			p.literal += ":"
		}
	} else {
		p.server = s.server
		if !s.before || !s.after {
			return nil, errors.New(`a half is empty; write server:tool, or "server" for all its tools`)
		}
		p.exact = s.literal
	}
	if p.exact {
		return p, nil
	}
	re, err := regexp.Compile(`\A(?s:` + s.re.String() + `)\z`)
	if err != nil {
		// The scanner writes only valid expressions; a class with a range that
		// runs backwards is the one thing left to regexp.
		return nil, errors.New("a class in [ ] has a range that runs backwards")
	}
	p.re = re
	return p, nil
}

func checkText(text string) error {
	switch {
	case text == "":
		return errors.New("the pattern is empty")
	case len(text) > maxPattern:
		return fmt.Errorf("the pattern has %d bytes; at most %d are allowed", len(text), maxPattern)
	case strings.TrimSpace(text) != text:
		return errors.New("there are spaces around the pattern")
	case hasControl(text):
		return errors.New("there is a control or invisible character in the pattern")
	}
	return nil
}

// hasControl reports whether a name has characters that a person cannot see:
// such a name could look like another one.
func hasControl(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	for _, r := range s {
		if core.Hidden(r) {
			return true
		}
	}
	return false
}

// scanner turns a glob into a regular expression.
type scanner struct {
	rest    string
	re      strings.Builder
	prefix  strings.Builder // while literal
	literal bool            // no wildcard so far
	colon   bool            // the separating colon has been passed
	server  string          // the server's half, if it is literal
	depth   int             // of open braces
	before  bool            // something stands before the colon
	after   bool            // something stands after it
	alt     []bool          // for each open brace: its alternative has text
}

func (s *scanner) run() error {
	for s.rest != "" {
		c := s.rest[0]
		var err error
		switch c {
		case '*', '?':
			s.wild(c)
		case '[':
			err = s.class()
		case ']':
			err = errors.New(`there is a "]" without its "["`)
		case '{', '}', ',':
			err = s.brace(c)
		case '\\':
			err = s.escape()
		case ':':
			err = s.separator()
		default:
			_, n := utf8.DecodeRuneInString(s.rest)
			s.text(s.rest[:n])
			s.rest = s.rest[n:]
		}
		if err != nil {
			return err
		}
	}
	if s.depth > 0 {
		return errors.New(`a "{" is not closed`)
	}
	return nil
}

func (s *scanner) text(lit string) {
	s.re.WriteString(regexp.QuoteMeta(lit))
	if s.literal {
		s.prefix.WriteString(lit)
	}
	s.mark()
}

func (s *scanner) mark() {
	if s.colon {
		s.after = true
	} else {
		s.before = true
	}
	if s.depth > 0 {
		s.alt[s.depth-1] = true
	}
}

func (s *scanner) wild(c byte) {
	s.literal = false
	one := "."
	if !s.colon {
		one = "[^:]"
	}
	s.re.WriteString(one)
	if c == '*' {
		s.re.WriteByte('*')
	}
	s.rest = s.rest[1:]
	s.mark()
}

func (s *scanner) escape() error {
	if len(s.rest) < 2 {
		return errors.New("a backslash stands at the end")
	}
	_, n := utf8.DecodeRuneInString(s.rest[1:])
	lit := s.rest[1 : 1+n]
	if lit == ":" && !s.colon {
		return errors.New("a colon cannot be escaped: the name of a server has none")
	}
	s.text(lit)
	s.rest = s.rest[1+n:]
	return nil
}

func (s *scanner) separator() error {
	s.rest = s.rest[1:]
	if s.colon {
		s.text(":")
		return nil
	}
	if s.depth > 0 {
		return errors.New("a colon stands inside { } before server and tool are separated; write two patterns")
	}
	if s.literal {
		s.server = s.prefix.String()
		s.prefix.WriteByte(':')
	}
	s.re.WriteByte(':')
	s.colon = true
	return nil
}

func (s *scanner) brace(c byte) error {
	switch {
	case c == '{':
		if s.depth == maxDepth {
			return fmt.Errorf("braces are nested more than %d deep", maxDepth)
		}
		s.literal = false
		s.re.WriteString("(?:")
		s.depth++
		s.alt = append(s.alt, false)
	case s.depth == 0 && c == ',':
		s.text(",")
	case s.depth == 0:
		return errors.New(`there is a "}" without its "{"`)
	case !s.alt[s.depth-1]:
		return errors.New("an alternative in { } is empty")
	case c == ',':
		s.re.WriteByte('|')
		s.alt[s.depth-1] = false
	default:
		s.re.WriteByte(')')
		s.depth--
		s.alt = s.alt[:s.depth]
		s.mark()
	}
	s.rest = s.rest[1:]
	return nil
}

// class reads [abc], [a-z], [!a-z] or [^a-z]; a "]" that stands first is a
// member. A class never matches a colon on the server's side.
func (s *scanner) class() error {
	s.literal = false
	body := s.rest[1:]
	not := body != "" && (body[0] == '!' || body[0] == '^')
	if not {
		body = body[1:]
	}
	var set strings.Builder
	for i := 0; ; {
		if i >= len(body) {
			return errors.New(`a "[" is not closed`)
		}
		r, n := utf8.DecodeRuneInString(body[i:])
		if r == ']' && i > 0 {
			s.rest = body[i+1:]
			break
		}
		switch {
		case r == ':' && !s.colon:
			return errors.New("a colon stands inside [ ] before server and tool are separated")
		case r == '-' && i > 0 && i+1 < len(body) && body[i+1] != ']':
			set.WriteByte('-')
		default:
			set.WriteString(quoteInClass(r))
		}
		i += n
	}
	s.re.WriteByte('[')
	if not {
		s.re.WriteByte('^')
		if !s.colon {
			s.re.WriteByte(':')
		}
	}
	s.re.WriteString(set.String())
	s.re.WriteByte(']')
	s.mark()
	return nil
}

// quoteInClass writes a rune so that it stands for itself in a class.
func quoteInClass(r rune) string { return fmt.Sprintf(`\x{%x}`, r) }
