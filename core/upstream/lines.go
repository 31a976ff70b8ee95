package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// maxPicks bounds how often a line is looked at for a message in other text.
const maxPicks = 16

// overlongCode is the JSON-RPC error code that stands in for a response that
// was too long to keep.
const overlongCode = -32098

// lineReader passes on the JSON-RPC lines of a server's output. Other lines
// go to noise. A line longer than max is never held: when it is a response,
// its caller gets an error instead, at once.
type lineReader struct {
	src   *bufio.Reader
	max   int
	noise func(line []byte)
	ended func() // called once, before io.EOF is returned

	pending []byte // what Read still has to give
	over    bool   // ended was called
}

func newLineReader(src io.Reader, max int, noise func([]byte), ended func()) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 32<<10), max: max, noise: noise, ended: ended}
}

// Read implements io.Reader. Every failure of the source is the end: what
// follows is the same, and the process says why it ended.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.pending) == 0 {
		line, err := r.next()
		r.pending = line
		if err != nil && len(line) == 0 {
			if !r.over {
				r.over = true
				r.ended()
			}
			return 0, io.EOF
		}
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// next reads one line and returns what is passed on for it, which may be nothing.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.src.ReadSlice('\n')
		if len(line)+len(part) > r.max {
			return r.overlong(line, part, err)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return r.filter(line), err
	}
}

// filter returns a line that is JSON-RPC, with its newline, or nothing.
func (r *lineReader) filter(line []byte) []byte {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if isMessage(line) {
		return append(line, '\n')
	}
	return r.pick(line)
}

// pick returns the messages, each on a line of its own, of a line that has
// other text around them: a log without a newline, a batch.
func (r *lineReader) pick(line []byte) []byte {
	var found, other []byte
	rest := line
	for range maxPicks {
		start := bytes.IndexByte(rest, '{')
		if start < 0 {
			break
		}
		dec := json.NewDecoder(bytes.NewReader(rest[start:]))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			other = append(other, rest[:start+1]...)
			rest = rest[start+1:]
			continue
		}
		end := start + len(value)
		if isMessage(value) {
			other = append(other, rest[:start]...)
			found = append(append(found, value...), '\n')
		} else { // nor is what is inside it
			other = append(other, rest[:end]...)
		}
		rest = rest[end:]
	}
	if other = append(other, rest...); len(other) > 0 {
		r.noise(other)
	}
	return found
}

// isMessage reports whether text is one JSON-RPC request, notification or
// response. Other JSON that happens to look like one in part is not: with the
// id of a call in it, it would be taken for the answer.
func isMessage(text []byte) bool {
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return false
	}
	var s envelope
	s.write(text)
	return s.versioned && (s.method || s.id != nil)
}

// overlong reads the rest of a line without keeping it and returns an error
// response for its id, if it has one of ours.
func (r *lineReader) overlong(line, part []byte, err error) ([]byte, error) {
	var scan envelope
	scan.write(line)
	size := len(line)
	for {
		scan.write(part)
		size += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		part, err = r.src.ReadSlice('\n')
	}
	id, convErr := strconv.ParseInt(string(scan.id), 10, 64)
	if convErr != nil || scan.method {
		r.noise(fmt.Appendf(nil, "a line of %d bytes was dropped", size))
		return nil, err
	}
	msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"the result is %d bytes long"}}`, id, overlongCode, size)
	return append([]byte(msg), '\n'), err
}

// envelope finds what makes a JSON object a message, without parsing what is in
// it: its members at the top.
type envelope struct {
	id        []byte // the text of "id", once seen
	method    bool   // there is a "method": not a response
	versioned bool   // "jsonrpc" is "2.0"

	depth       int
	inStr, esc  bool
	value       bool   // at depth 1: behind the colon
	key, scalar []byte // the scalar with its quotes
}

func (s *envelope) write(p []byte) {
	for _, b := range p {
		s.step(b)
	}
}

func (s *envelope) step(b byte) {
	if s.inStr {
		if s.depth == 1 && s.value {
			s.keep(b)
		}
		switch {
		case s.esc:
			s.esc = false
		case b == '\\':
			s.esc = true
		case b == '"':
			s.inStr = false
		}
		if s.inStr && s.depth == 1 && !s.value && len(s.key) < 32 {
			s.key = append(s.key, b)
		}
		return
	}
	switch b {
	case '"':
		s.inStr = true
		if s.depth == 1 && s.value {
			s.keep(b)
		} else if s.depth == 1 {
			s.key = s.key[:0]
		}
	case '{', '[':
		s.depth++
	case '}', ']':
		s.end()
		s.depth--
	case ':':
		if s.depth == 1 {
			s.value, s.scalar = true, s.scalar[:0]
		}
	case ',':
		s.end()
	case ' ', '\t', '\r', '\n':
	default:
		if s.depth == 1 && s.value {
			s.keep(b)
		}
	}
}

// keep keeps the beginning of a value: what is looked for is short.
func (s *envelope) keep(b byte) {
	if len(s.scalar) < 32 {
		s.scalar = append(s.scalar, b)
	}
}

// end closes a member of the outermost object.
func (s *envelope) end() {
	if s.depth != 1 || !s.value {
		return
	}
	switch string(s.key) {
	case "id":
		s.id = append([]byte{}, s.scalar...)
	case "method":
		s.method = true
	case "jsonrpc":
		s.versioned = string(s.scalar) == `"2.0"`
	}
	s.value = false
}
