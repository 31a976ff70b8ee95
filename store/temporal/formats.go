package temporal

import (
	"maps"
	"strconv"
	"sync"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/casys-ai/pml/core"
)

// formatNow is the format of what this pml writes. It grows with each change after which an earlier pml would lose some of what a later one
// has written, would refuse it, or would come to other commands from it; docs/temporal.md says what such a change is.
const formatNow = 1

// formatLabel is where a payload says its format; one that says nothing has format 1.
const formatLabel = "pml-format"

// formats is the codec that says the format of payloads, and refuses those of a later one than its own.
type formats struct {
	own  int
	work *work // nil: nothing is served with it
}

// Encode implements converter.PayloadCodec.
func (f formats) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if f.own == 1 {
		return payloads, nil
	}
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		metadata := map[string][]byte{formatLabel: strconv.AppendInt(nil, int64(f.own), 10)}
		maps.Copy(metadata, p.GetMetadata())
		out[i] = &commonpb.Payload{Metadata: metadata, Data: p.GetData()}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec.
func (f formats) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for _, p := range payloads {
		said, ok := p.GetMetadata()[formatLabel]
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(string(said)); err != nil || n > f.own {
			return nil, f.work.cannotRead(core.Errorf(core.CodeStoreNewer, "a newer pml has written to Temporal what this one cannot read (format %s, this pml knows formats up to %d); update pml", core.Visible(string(said), 20, false), f.own))
		}
	}
	return payloads, nil
}

// work is what a process serves for all others. It ends when the process meets what it cannot read and another one can.
type work struct {
	mu  sync.Mutex
	err *core.Error
	end func(*core.Error)
}

// cannotRead is the error of a payload that this process cannot read. Where workflows are served and another process can, it
// ends the work and panics. After an error the SDK goes on: it would refuse a step, lose a signal or fail a run. After
// a panic nothing has happened, and Temporal gives the task to another process.
func (w *work) cannotRead(err error) error {
	e := core.AsError(err)
	if w == nil || e.Code != core.CodeStoreKey && e.Code != core.CodeStoreNewer {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = e
		go w.end(e) // which waits for the task that this is part of
	}
	panic(e)
}

// ended is why the work has ended; nil: it has not.
func (w *work) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		return nil
	}
	return w.err
}
