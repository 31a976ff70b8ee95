package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/casys-ai/pml/core"
)

// frame is one message of a stream of server-sent events.
type frame struct {
	id, event string
	data      []byte
}

// scanner reads server-sent events: what a server sends, and what anything else
// that answers in its place may send. Lines end with LF, CR LF or CR. Comments
// and unknown fields are skipped; a message that the stream ends in the middle
// of is dropped.
type scanner struct {
	r   *bufio.Reader
	max int // bytes of one message
	// afterCR is set when the last line ended with CR: a LF right behind belongs to it.
	afterCR bool
	started bool
}

func newScanner(r io.Reader, maxBytes int) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, 16<<10), max: maxBytes}
}

// next returns the next message. The error is io.EOF at the end of the stream,
// and core.CodeResultTooLarge for a message that is longer than allowed.
func (s *scanner) next() (frame, error) {
	var f frame
	size, data := 0, false
	for {
		line, err := s.line(s.max - size)
		if err != nil {
			return frame{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if data || f.event != "" || f.id != "" {
				return f, nil
			}
			size = 0
			continue
		}
		if line[0] == ':' {
			size -= len(line)
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			if !bytes.ContainsRune(value, 0) {
				f.id = string(value)
			}
		case "event":
			f.event = string(value)
		case "data":
			if data {
				f.data = append(f.data, '\n')
			}
			f.data, data = append(f.data, value...), true
		}
	}
}

// line reads a line of at most max bytes, without its end.
func (s *scanner) line(limit int) ([]byte, error) {
	var line []byte
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if b == '\n' && s.afterCR {
			s.afterCR = false
			continue
		}
		s.afterCR = b == '\r'
		if b == '\n' || b == '\r' {
			if !s.started {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			s.started = true
			return line, nil
		}
		if len(line) >= limit {
			return nil, core.Errorf(core.CodeResultTooLarge, "a message of the stream of events is longer than %d bytes", s.max)
		}
		line = append(line, b)
	}
}
