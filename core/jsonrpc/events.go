package jsonrpc

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// Event is one event of a stream of server-sent events.
type Event struct {
	Data  []byte
	ID    string
	HasID bool
	Retry time.Duration // negative: it names none
}

// EventReader reads a stream of server-sent events.
type EventReader struct{ src *bufio.Reader }

// NewEventReader returns a reader of the events in src.
func NewEventReader(src io.Reader) *EventReader { return &EventReader{bufio.NewReader(src)} }

// Next returns the next event. With an error it is what has come of one that is
// not whole.
func (r *EventReader) Next() (Event, error) {
	e := Event{Retry: -1}
	var data [][]byte
	for {
		line, err := r.src.ReadBytes('\n')
		text := bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, value)
		case "id":
			if err == nil && !bytes.ContainsRune(value, 0) {
				e.ID, e.HasID = string(value), true
			}
		case "retry":
			if ms, bad := strconv.ParseUint(string(value), 10, 31); bad == nil && err == nil {
				e.Retry = time.Duration(ms) * time.Millisecond
			}
		}
		if err != nil || len(text) == 0 {
			if e.Data = nil; len(data) == 1 {
				e.Data = data[0]
			} else if len(data) > 1 {
				e.Data = bytes.Join(data, []byte("\n"))
			}
			return e, err
		}
	}
}

// WriteEvent writes a message, which is one line, as an event.
func WriteEvent(w io.Writer, message []byte) error {
	text := make([]byte, 0, len(message)+24)
	text = append(append(text, "event: message\ndata: "...), message...)
	_, err := w.Write(append(text, "\n\n"...))
	return err
}
