package upstream

import (
	"bytes"
	"errors"
	"io"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// eventStream is a stream of events of a server. One that ends early is resumed
// where that is possible.
type eventStream struct {
	heard func(jsonrpc.Message) // gets what the server says unasked, in its order
	// answers is set for the stream of a request: it ends with the response.
	answers bool
	// reopen opens the rest of the stream, nil where that is not possible.
	reopen func(*cursor) (io.ReadCloser, error)
	at     cursor
}

// read reads the stream to its end, and returns the response that it was for.
func (s *eventStream) read(body io.ReadCloser) (*jsonrpc.Message, error) {
	defer func() { _ = body.Close() }()
	s.at.retry = -1
	for {
		answer, last, err := s.once(body)
		if answer != nil {
			return answer, nil
		}
		if s.reopen == nil || s.at.last == "" || errors.Is(err, errTooLong) {
			if errors.Is(err, io.EOF) {
				err = errCut
				s.take(last)
			}
			return nil, err
		}
		s.at.cut()
		_ = body.Close()
		next, err := s.reopen(&s.at)
		if err != nil {
			return nil, err
		}
		body = next
	}
}

// once reads one connection to its end. last is the event that is not whole.
func (s *eventStream) once(body io.Reader) (answer *jsonrpc.Message, last jsonrpc.Event, err error) {
	events := jsonrpc.NewEventReader(body)
	for {
		e, err := events.Next()
		s.at.take(e, err == nil)
		switch {
		case err == nil:
			answer = s.take(e)
		case errors.Is(err, io.EOF) && s.isAnswer(e):
			answer = s.take(e)
		default:
			return nil, e, err
		}
		if answer != nil {
			return answer, e, nil
		}
	}
}

func (s *eventStream) isAnswer(e jsonrpc.Event) bool {
	m, ok := jsonrpc.Parse(bytes.TrimSpace(e.Data))
	return s.answers && ok && m.IsMessage() && !m.Unasked()
}

// take passes on what the server says unasked, and returns a response. What
// names a method and is no message is dropped.
func (s *eventStream) take(e jsonrpc.Event) (answer *jsonrpc.Message) {
	m, ok := jsonrpc.Parse(bytes.TrimSpace(e.Data))
	switch {
	case !ok || !m.IsMessage():
	case m.Unasked():
		s.heard(m)
	case s.answers:
		return &m
	}
	return nil
}
