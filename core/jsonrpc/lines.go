package jsonrpc

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

// CodeOverlong is the error code that stands in for a response that was too
// long to keep.
const CodeOverlong = -32098

// LineReader reads messages that come one a line. A line longer than its limit
// is never held.
type LineReader struct {
	src *bufio.Reader
	max int
	err error // of the source, behind a line that was too long
}

// NewLineReader returns a reader of lines of at most max bytes.
func NewLineReader(src io.Reader, max int) *LineReader {
	return &LineReader{src: bufio.NewReaderSize(src, 32<<10), max: max}
}

// LongLineError is returned in the place of a line that was too long.
type LongLineError struct {
	Size int
	seen envelope
}

// Error implements error.
func (e *LongLineError) Error() string { return fmt.Sprintf("a line of %d bytes was dropped", e.Size) }

// Next returns the next line, with its end, or a LongLineError. The last line may
// come with the error that ends the source.
func (r *LineReader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	var line []byte
	for {
		part, err := r.src.ReadSlice('\n')
		if len(line)+len(part) > r.max {
			return nil, r.skip(line, part, err)
		}
		if line != nil && len(line)+len(part) > cap(line) {
			line = slices.Grow(line, len(line)+len(part))
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, err
	}
}

// skip reads the rest of a line without keeping it.
func (r *LineReader) skip(line, part []byte, err error) *LongLineError {
	long := &LongLineError{Size: len(line)}
	long.seen.write(line)
	for {
		long.seen.write(part)
		long.Size += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			r.err = err
			return long
		}
		part, err = r.src.ReadSlice('\n')
	}
}

// Messages reads the output of a server until it ends or done is closed, and
// passes on the messages in it. Other text goes to noise. A response that is too
// long becomes an error for its caller, at once. Every failure of the source is
// the end: what follows is the same.
func (r *LineReader) Messages(done <-chan struct{}, noise func([]byte), message func(Message)) {
	s := scanner{noise, message}
	for {
		select {
		case <-done:
			return
		default:
		}
		line, err := r.Next()
		if long, ok := errors.AsType[*LongLineError](err); ok {
			s.overlong(long)
			continue
		}
		s.filter(line)
		if err != nil {
			return
		}
	}
}

// scanner finds the messages in lines.
type scanner struct {
	noise   func(text []byte)
	message func(Message)
}

// filter passes on a line that is JSON-RPC.
func (s scanner) filter(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if w, ok := Parse(line); ok && w.IsMessage() {
		s.message(w)
		return
	}
	s.pick(line)
}

// pick passes on the messages of a line that has other text around them: a log
// without a newline, a batch.
func (s scanner) pick(line []byte) {
	var found []Message
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
		if w, ok := Parse(value); ok && w.IsMessage() {
			other = append(other, rest[:start]...)
			found = append(found, w)
		} else { // nor is what is inside it
			other = append(other, rest[:end]...)
		}
		rest = rest[end:]
	}
	if other = append(other, rest...); len(other) > 0 {
		s.noise(other)
	}
	for _, w := range found {
		s.message(w)
	}
}

// overlong passes on an error for a response that was too long.
func (s scanner) overlong(long *LongLineError) {
	id, err := strconv.ParseInt(string(long.seen.id), 10, 64)
	if err != nil || long.seen.method {
		s.noise([]byte(long.Error()))
		return
	}
	m, _ := Parse(Refuse(strconv.AppendInt(nil, id, 10), CodeOverlong, fmt.Sprintf("the result is %d bytes long", long.Size)).Encode())
	s.message(m)
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

// maxID is the length of an id that is found in what is not read whole.
const maxID = 200

// keep keeps the beginning of a value: what is looked for is short.
func (s *envelope) keep(b byte) {
	if len(s.scalar) <= maxID {
		s.scalar = append(s.scalar, b)
	}
}

// IDOf finds the id in a message that is too deep to be read, so that who waits
// for its answer gets one; nil where there is none.
func IDOf(raw []byte) json.RawMessage {
	var seen envelope
	seen.write(raw)
	if len(seen.id) > maxID || !json.Valid(seen.id) {
		return nil
	}
	return PlainID(seen.id)
}

// PlainID is an id if it is a string or a number, nil otherwise.
func PlainID(id json.RawMessage) json.RawMessage {
	if len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9') {
		return id
	}
	return nil
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
