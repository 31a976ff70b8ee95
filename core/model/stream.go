package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	maxEvent  = 4 << 20 // bytes of one event of a stream
	maxAnswer = 8 << 20 // bytes that are kept of an answer
	perPart   = 64      // what keeping a part costs beside its bytes, about
)

var errEventTooLong = errors.New("an event is too long")

// assembler puts an answer together from the events of its stream.
type assembler interface {
	// event takes the data of one event; done says that it was the last one.
	event(data []byte) (done bool, err error)
	// answer is what has come; an error says that it is not whole.
	answer() (Answer, error)
}

// newAssembler reads the streams of a protocol.
func newAssembler(p Protocol, onText func(string)) assembler {
	if onText == nil {
		onText = func(string) {}
	}
	if p == OpenAI {
		return &openAIStream{onText: onText}
	}
	return &anthropicStream{onText: onText}
}

// readStream reads a stream to its end.
func readStream(body io.Reader, a assembler) (Answer, error) {
	bounded := &boundedReader{src: body}
	events := jsonrpc.NewEventReader(bounded)
	for {
		bounded.left = maxEvent
		e, err := events.Next()
		if errors.Is(err, errEventTooLong) {
			return Answer{}, tooLarge("sent an event of more than %d MiB", maxEvent>>20)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return Answer{}, cutOff(err)
		}
		if len(bytes.TrimSpace(e.Data)) > 0 {
			if done, bad := a.event(e.Data); bad != nil || done {
				if bad != nil {
					return Answer{}, bad
				}
				return a.answer()
			}
		}
		if err != nil {
			return a.answer()
		}
	}
}

// boundedReader reads as much as it may until that is set again.
type boundedReader struct {
	src  io.Reader
	left int
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errEventTooLong
	}
	n, err := r.src.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// decode reads the JSON of an event.
func decode(data []byte, to any) error {
	if err := json.Unmarshal(data, to); err != nil {
		return broken("sent an event that cannot be read: %s", core.Visible(err.Error(), 120, false))
	}
	return nil
}

// kept counts what is kept of an answer.
type kept int

func (k *kept) add(n int) error {
	if *k += kept(n + perPart); *k > maxAnswer {
		return tooLarge("answered with more than %d MiB", maxAnswer>>20)
	}
	return nil
}
