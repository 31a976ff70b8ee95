package analyze

import "bytes"

// Limits of what is handed to the parser, which recurses without a bound and
// tries parameter lists twice. Scripts that people write stay far below.
const (
	maxNesting = 400
	maxParams  = 6
	maxRun     = 400 // operators in a row that nest to the right
)

type bracket struct {
	open   byte
	params int // parameter lists nested inside
	tmpl   bool
}

// scanner reads a script roughly: it knows strings, templates, comments and
// regular expressions well enough to count brackets.
type scanner struct {
	b     []byte
	stack []bracket
	run   int
	// prev is the last byte that was no space: it decides whether a slash
	// divides or begins a regular expression; word is the last word.
	prev byte
	word string
}

// prescan says why a script is too deeply nested to be parsed, or "". It also
// returns the text to parse, in which `for await` is `for`: the same length,
// and the same calls.
func prescan(script string) (text []byte, problem string) {
	s := scanner{b: []byte(script)}
	for i := 0; i < len(s.b); {
		n := s.token(i)
		if n < 0 || len(s.stack) > maxNesting || s.run > maxRun {
			return nil, "it is nested too deeply"
		}
		i += n
	}
	return s.b, ""
}

// token consumes what starts at i and returns its length; -1 refuses.
func (s *scanner) token(i int) int {
	c := s.b[i]
	switch {
	case c <= ' ':
		return 1
	case isWordByte(c):
		return s.readWord(i)
	case c == '/' && i+1 < len(s.b) && (s.b[i+1] == '/' || s.b[i+1] == '*'):
		return s.comment(i)
	case c == '"' || c == '\'':
		s.prev, s.word = c, ""
		return s.quoted(i, c)
	case c == '`':
		return s.template(i+1, 1)
	case c == '/' && s.regexpMayStart():
		s.prev, s.word = 'r', ""
		return s.regexp(i)
	}
	n := 1
	switch c {
	case '(', '[', '{':
		s.stack = append(s.stack, bracket{open: c})
	case ')', ']', '}':
		if tmpl, ok := s.closed(i); !ok {
			return -1
		} else if tmpl {
			return s.template(i+1, 1)
		}
		if c == '}' {
			s.run = 0
		}
	case ';', ',':
		s.run = 0
	case '=', '!', '~', '?', ':', '*', '+', '-':
		s.run++
	}
	s.prev, s.word = c, ""
	return n
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (s *scanner) readWord(i int) int {
	n := 1
	for i+n < len(s.b) && isWordByte(s.b[i+n]) {
		n++
	}
	w := string(s.b[i : i+n])
	switch w {
	case "await":
		if s.word == "for" {
			copy(s.b[i:], "     ")
			return n
		}
		s.run++
	case "if", "for", "while", "do", "with", "typeof", "void", "new", "delete", "yield", "async":
		s.run++
	}
	s.prev, s.word = 'a', w
	return n
}

func (s *scanner) comment(i int) int {
	end, skip := "\n", 1
	if s.b[i+1] == '*' {
		end, skip = "*/", 2
	}
	n := bytes.Index(s.b[i+2:], []byte(end))
	if n < 0 {
		return len(s.b) - i
	}
	return n + 2 + skip
}

func (s *scanner) quoted(i int, q byte) int {
	for j := i + 1; j < len(s.b); j++ {
		switch s.b[j] {
		case '\\':
			j++
		case q, '\n':
			return j - i + 1
		}
	}
	return len(s.b) - i
}

// template reads the text of a template up to its end or its next `${`; n is
// what was consumed before from.
func (s *scanner) template(from, n int) int {
	for j := from; j < len(s.b); j++ {
		switch s.b[j] {
		case '\\':
			j++
		case '`':
			s.prev, s.word = '"', ""
			return j - from + 1 + n
		case '$':
			if j+1 < len(s.b) && s.b[j+1] == '{' {
				s.stack = append(s.stack, bracket{open: '{', tmpl: true})
				s.prev, s.word = '{', ""
				return j - from + 2 + n
			}
		}
	}
	return len(s.b) - from + n
}

func (s *scanner) regexpMayStart() bool {
	switch s.prev {
	case ')', ']', '}', '"', '\'', 'r':
		return false
	case 'a':
		switch s.word {
		case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "await", "yield", "instanceof":
			return true
		}
		return false
	}
	return true
}

func (s *scanner) regexp(i int) int {
	class := false
	for j := i + 1; j < len(s.b); j++ {
		switch s.b[j] {
		case '\\':
			j++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				return j - i + 1
			}
		case '\n':
			return 1
		}
	}
	return 1
}

// closed pops a bracket. It refuses parameter lists nested in parameter lists,
// on which the parser takes exponential time.
func (s *scanner) closed(i int) (tmpl, ok bool) {
	if len(s.stack) == 0 {
		return false, true // the parser reports it
	}
	top := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if top.open == '(' {
		j := i + 1
		for j < len(s.b) && s.b[j] <= ' ' {
			j++
		}
		if j+1 < len(s.b) && s.b[j] == '=' && s.b[j+1] == '>' {
			top.params++
		}
	}
	if len(s.stack) > 0 {
		up := &s.stack[len(s.stack)-1]
		up.params = max(up.params, top.params)
	}
	return top.tmpl && s.b[i] == '}', top.params <= maxParams
}
