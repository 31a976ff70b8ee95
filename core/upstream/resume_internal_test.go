package upstream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// stored are the events of one stream as a server that keeps them has them.
type stored []string

func (s stored) text() string { return strings.Join(s, "") }

// behind is what comes behind the event with an id.
func (s stored) behind(id string) string {
	for i, e := range s {
		if strings.HasPrefix(e, "id: "+id+"\n") {
			return s[i+1:].text()
		}
	}
	return "no such event"
}

// torn ends with an error that is not that of an end.
type torn struct{ io.Reader }

func (t torn) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Wherever a stream ends, in the middle of a line or between events, by its end or
// by the loss of its connection, everything in it is heard once, in its order, if
// it had named an event to go on behind; and the response is taken once.
func TestResume_Everywhere(t *testing.T) {
	t.Parallel()
	const (
		note   = `{"jsonrpc":"2.0","method":"n","params":{"i":%d}}`
		result = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	events := stored{
		"id: 1\nretry: 250\ndata: \n\n", ": a comment\n\n",
		"id: 2\nevent: message\ndata: " + fmt.Sprintf(note, 2) + "\n\n",
		"id: 3\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"n\"}\r\n\r\n",
		"id: 4\ndata: " + result + "\n\n",
	}
	named := len("id: 1\nretry: 250\ndata: \n\n")
	whole := []string{fmt.Sprintf(note, 2), "{\"jsonrpc\":\"2.0\",\n\"method\":\"n\"}", result}
	for _, tears := range []bool{false, true} {
		for n := range len(events.text()) + 1 {
			cut := func(s string) io.ReadCloser {
				if n := min(n, len(s)); tears {
					return io.NopCloser(torn{strings.NewReader(s[:n])})
				} else {
					return io.NopCloser(strings.NewReader(s[:n]))
				}
			}
			var heard []string
			f := &eventStream{answers: true, heard: func(m jsonrpc.Message) { heard = append(heard, string(m.Text)) }}
			opened := 0
			f.reopen = func(at *cursor) (io.ReadCloser, error) {
				opened++
				if at.delay(0) < 250_000_000 {
					t.Errorf("cut at %d: waits %s", n, at.delay(0))
				}
				if opened > 1 { // the second one, too, ends early
					return io.NopCloser(strings.NewReader(events.behind(at.last))), nil
				}
				return cut(events.behind(at.last)), nil
			}
			answer, err := f.read(cut(events.text()))
			if n < named {
				if opened > 0 || answer != nil {
					t.Errorf("cut at %d, tears %v: resumed without an id", n, tears)
				}
				continue
			}
			if answer != nil {
				heard = append(heard, string(answer.Text))
			}
			if diff := cmp.Diff(whole, heard); diff != "" || answer == nil {
				t.Errorf("cut at %d, tears %v, resumed %d times, %v: %s", n, tears, opened, err, diff)
			}
		}
	}
}

// A stream that was answered, one that was too long and one without ids are not
// resumed.
func TestResume_Not(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"answered":    strings.NewReader("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"),
		"too long":    io.MultiReader(strings.NewReader("id: 1\ndata: \n\n"), failing{errTooLong}),
		"without ids": strings.NewReader("retry: 5\ndata: \n\n"),
		"taken back":  strings.NewReader("id: 1\ndata: \n\nid:\ndata: \n\n"),
		"odd id":      strings.NewReader("id: \x00\ndata: \n\n"),
	} {
		f := &eventStream{answers: true, heard: func(jsonrpc.Message) {}}
		f.reopen = func(*cursor) (io.ReadCloser, error) { t.Errorf("%s: resumed", name); return nil, io.EOF }
		_, _ = f.read(io.NopCloser(body))
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }
