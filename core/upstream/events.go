package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// eventFilter passes a stream of events on without the requests and
// notifications of the server. heard gets every message as it was sent, before
// it or what comes after it is passed on.
type eventFilter struct {
	io.Closer
	src   *bufio.Reader
	heard func(w wire)

	event   []byte   // the lines of the event so far
	data    [][]byte // what they say
	pending []byte
	err     error
}

func newEventFilter(body io.ReadCloser, heard func(wire)) *eventFilter {
	return &eventFilter{Closer: body, src: bufio.NewReader(body), heard: heard}
}

// Read implements io.Reader.
func (f *eventFilter) Read(p []byte) (int, error) {
	for len(f.pending) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		line, err := f.src.ReadBytes('\n')
		f.err = err
		f.line(line, err == nil)
		if err != nil {
			if errors.Is(err, io.EOF) {
				f.flush()
			} else {
				f.pending = append(f.pending, f.event...)
			}
		}
	}
	n := copy(p, f.pending)
	f.pending = f.pending[n:]
	return n, nil
}

// line takes one line; an empty one that is complete ends its event.
func (f *eventFilter) line(line []byte, complete bool) {
	trimmed := bytes.TrimRight(line, "\r\n")
	if data, ok := bytes.CutPrefix(trimmed, []byte("data:")); ok {
		f.data = append(f.data, bytes.TrimPrefix(data, []byte(" ")))
	}
	if f.event == nil {
		f.event = line
	} else {
		f.event = append(f.event, line...)
	}
	if complete && len(trimmed) == 0 {
		f.flush()
	}
}

// flush passes an event on, or what is left of it.
func (f *eventFilter) flush() {
	event, data := f.event, []byte(nil)
	if len(f.data) == 1 {
		data = f.data[0]
	} else {
		data = bytes.Join(f.data, []byte("\n"))
	}
	f.event, f.data = nil, nil
	w, ok := parseWire(bytes.TrimSpace(data))
	if ok && w.isMessage() {
		f.heard(w)
	}
	if !ok || !w.unasked() { // what names a method and is no message is dropped: the library would answer it
		f.pending = event
		return
	}
	for line := range bytes.Lines(event) { // the id of an event counts without its data
		if !bytes.HasPrefix(line, []byte("data:")) && !bytes.HasPrefix(line, []byte("event:")) {
			f.pending = append(f.pending, line...)
		}
	}
}

// filtered is a stream of events without what the server says unasked. ctx
// ends with what it is about.
func (e *endpoint) filtered(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	if e.heard == nil {
		return body
	}
	a := answerOf(ctx)
	return newEventFilter(body, func(w wire) {
		if w.unasked() {
			e.heard(ctx, w)
		} else if data := errorData(w.failure); data != nil && a != nil {
			a.data.Store(&data)
		}
	})
}

// queue has the answer to a request of the server sent, and returns at once.
func (t *httpTransport) queue(response []byte) { t.conn.deliver(response, t.reply) }

// reply sends the answer to a request of the server.
func (t *httpTransport) reply(response []byte) {
	ctx, cancel := context.WithTimeout(t.conn.life, replyWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(response))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if id := t.GetSessionId(); id != "" {
		req.Header.Set(transport.HeaderKeySessionID, id)
	}
	if v, _ := t.version.Load().(string); v != "" {
		req.Header.Set(transport.HeaderKeyProtocolVersion, v)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		t.conn.log.Debug("an answer was not delivered", "server", t.conn.name, "err", plain(err))
		return
	}
	discard(resp)
}

// replyWait bounds how long the delivery of an answer may take.
const replyWait = 30 * time.Second
