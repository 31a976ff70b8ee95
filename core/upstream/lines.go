package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxPicks bounds how often a line is looked at for a message in other text.
const maxPicks = 16

// overlongCode is the JSON-RPC error code that stands in for a response that
// was too long to keep.
const overlongCode = -32098

// lineReader finds the JSON-RPC messages in a server's output. Other lines go
// to noise. A line longer than max is never held: when it is a response, its
// caller gets an error instead, at once.
type lineReader struct {
	src     *bufio.Reader
	max     int
	noise   func(line []byte)
	message func(wire)
}

func newLineReader(src io.Reader, max int, noise func([]byte), message func(wire)) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 32<<10), max: max, noise: noise, message: message}
}

// run reads until the source ends or done is closed. Every failure of the
// source is the end: what follows is the same, and the process says why it
// ended.
func (r *lineReader) run(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		if r.next() != nil {
			return
		}
	}
}

// next reads one line and passes on what is in it.
func (r *lineReader) next() error {
	var line []byte
	for {
		part, err := r.src.ReadSlice('\n')
		if len(line)+len(part) > r.max {
			return r.overlong(line, part, err)
		}
		if line != nil && len(line)+len(part) > cap(line) {
			line = slices.Grow(line, len(line)+len(part))
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		r.filter(line)
		return err
	}
}

// filter passes on a line that is JSON-RPC.
func (r *lineReader) filter(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if w, ok := parseWire(line); ok && w.isMessage() {
		r.message(w)
		return
	}
	r.pick(line)
}

// pick passes on the messages of a line that has other text around them: a log
// without a newline, a batch.
func (r *lineReader) pick(line []byte) {
	var found []wire
	var other []byte
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
		if w, ok := parseWire(value); ok && w.isMessage() {
			other = append(other, rest[:start]...)
			found = append(found, w)
		} else { // nor is what is inside it
			other = append(other, rest[:end]...)
		}
		rest = rest[end:]
	}
	if other = append(other, rest...); len(other) > 0 {
		r.noise(other)
	}
	for _, w := range found {
		r.message(w)
	}
}

// overlong reads the rest of a line without keeping it and passes on an error
// response for its id, if it has one of ours.
func (r *lineReader) overlong(line, part []byte, err error) error {
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
		return err
	}
	msg := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"the result is %d bytes long"}}`, id, overlongCode, size)
	w, _ := parseWire(msg)
	r.message(w)
	return err
}

// envelope finds what makes a JSON object a response while it passes by: its
// members at the top.
type envelope struct {
	id     []byte // the text of "id", once seen
	method bool   // there is a "method": not a response

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
	}
	s.value = false
}
