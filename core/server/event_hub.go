package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// hub follows the events of the store once for all readers and keeps the newest
// of them in a ring, ready to be sent. Readers take from the ring at their own
// pace: nobody waits for a reader, and a slow one is overtaken.
type hub struct {
	s     *Server
	start sync.Once
	ready chan struct{} // closed when it knows where it begins

	mu      sync.RWMutex
	ring    []*frame // ascending, without a gap
	base    int64    // every event after it, up to head, is in the ring
	head    int64
	bytes   int
	changed chan struct{} // closed, and made anew, with every event
}

// frame is an event as it goes to every reader, with what filters ask for.
type frame struct {
	seq   int64
	typ   core.EventType
	run   core.ID
	owner string
	text  []byte
}

func newHub(s *Server) *hub {
	return &hub{s: s, ready: make(chan struct{}), changed: make(chan struct{})}
}

// beginWithin is how long the store may take to say what its newest event is.
const beginWithin = 5 * time.Second

// wait starts the hub, and returns when it knows where it begins.
func (h *hub) wait(ctx context.Context) error {
	h.start.Do(func() { h.s.wg.Go(func() { h.follow(h.s.ctx) }) })
	late := time.NewTimer(beginWithin)
	defer late.Stop()
	select {
	case <-h.ready:
		return nil
	case <-late.C:
		return core.Errorf(core.CodeStoreBusy, "the store does not say what has happened; the events cannot be followed yet")
	case <-ctx.Done():
		return ctx.Err()
	case <-h.s.ctx.Done():
		return core.Errorf(core.CodeServerUnreachable, "the server stops")
	}
}

// follow takes events from the store until the context ends; a store that is
// away for a while comes back.
func (h *hub) follow(ctx context.Context) {
	const shortest, longest = 50 * time.Millisecond, 2 * time.Second
	begun, pause := false, shortest
	for ctx.Err() == nil {
		before := h.newest()
		err := h.events(ctx, &begun)
		if ctx.Err() != nil {
			return
		}
		if h.newest() > before {
			pause = shortest
		}
		if err != nil { // without one the store was closed: it stops, too
			h.s.log.WarnContext(ctx, "the events of the store cannot be followed; trying again", "error", err.Error(), "after", pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longest)
	}
}

// events begins behind the newest event, or goes on where it was.
func (h *hub) events(ctx context.Context, begun *bool) error {
	backend, err := h.s.o.Half(api.Scope{})
	if err != nil {
		return err
	}
	if !*begun {
		snap, err := backend.Snapshot(ctx)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.base, h.head = snap.Seq, snap.Seq
		h.mu.Unlock()
		*begun = true
		close(h.ready)
	}
	return backend.Events(ctx, "", api.Since{Any: h.newest()}, true, h.publish)
}

// publish puts an event into the ring.
func (h *hub) publish(e core.Event) error {
	text, err := frameText(e)
	if err != nil {
		return err
	}
	f := &frame{seq: e.Seq, typ: e.Type, run: e.RunID, owner: e.Owner, text: text}
	h.mu.Lock()
	if e.Seq <= h.head {
		h.mu.Unlock()
		return nil
	}
	h.ring = append(h.ring, f)
	h.head = e.Seq
	h.bytes += len(text)
	for len(h.ring) > h.s.o.Limits.Ring || h.bytes > h.s.o.Limits.RingBytes {
		h.base = h.ring[0].seq
		h.bytes -= len(h.ring[0].text)
		h.ring[0] = nil
		h.ring = h.ring[1:]
	}
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	if h.s.o.Lag != nil {
		h.s.o.Lag(h.s.o.Clock.Now().Sub(e.At))
	}
	return nil
}

func (h *hub) newest() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.head
}

// batch is how many frames a reader takes at once.
const batch = 512

// after appends the next frames after a sequence number to buf. ok is false when
// the ring does not reach back that far; more is closed with the next event.
func (h *hub) after(seq int64, buf []*frame) (frames []*frame, more <-chan struct{}, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if seq < h.base {
		return nil, nil, false
	}
	i := sort.Search(len(h.ring), func(i int) bool { return h.ring[i].seq > seq })
	return append(buf, h.ring[i:min(len(h.ring), i+batch)]...), h.changed, true
}

// frameText is an event as server-sent events spell it.
func frameText(e core.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "the event %d cannot be written: %w", e.Seq, err)
	}
	return fmt.Appendf(make([]byte, 0, len(data)+64), "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data), nil
}

// pieceText is a piece of what a model writes as server-sent events spell it: without a
// number, so that whoever goes on later goes on after the last event that has one.
func pieceText(e core.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "a piece of a text cannot be written: %w", err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.Type, data), nil
}
