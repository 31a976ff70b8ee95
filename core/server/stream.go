package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// errSlow ends an answer that its reader does not take.
var errSlow = errors.New("the reader is too slow")

// errRemoved ends a stream whose key is worth nothing any more.
var errRemoved = errors.New("the API key was removed")

// reader is one stream of events.
type reader struct {
	s       *Server
	backend Backend
	owner   string
	filter  streamQuery
	cursor  int64 // the last event that was sent or passed over
	w       http.ResponseWriter
	conn    *http.ResponseController
}

// stream answers with server-sent events. The first frame is a snapshot. A
// reader that says what it has seen (Last-Event-ID, or since) gets what came
// after it instead, without a gap; where that number is newer than all there
// is, the reader has seen another store, and gets the snapshot.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, backend Backend, q streamQuery) {
	scope, _ := ScopeFrom(r.Context())
	if !s.readers.enter(scope.Owner) {
		limited(5*time.Second, "too many readers of events; close one").write(w)
		return
	}
	defer s.readers.leave(scope.Owner)
	rd := &reader{s: s, backend: backend, owner: scope.Owner, filter: q, w: w, conn: http.NewResponseController(w)}
	if err := s.hub.wait(r.Context()); err != nil {
		s.failure(r.Context(), err).write(w)
		return
	}
	first, err := rd.open(r.Context())
	if err != nil {
		s.failure(r.Context(), err).write(w)
		return
	}
	streamHeader(w)
	err = rd.send(first)
	if err == nil {
		err = rd.run(r.Context())
	}
	if err != nil && r.Context().Err() == nil {
		s.log.DebugContext(r.Context(), "a reader of events was let go", "at", rd.cursor, "error", err.Error())
		panic(http.ErrAbortHandler) // the reader must see that this is no end
	}
}

// streamHeader begins an answer that is a stream.
func streamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// open sets where the stream begins and returns what comes before the events.
func (rd *reader) open(ctx context.Context) ([]byte, error) {
	if rd.filter.resume && rd.filter.since <= rd.s.hub.newest() {
		rd.cursor = rd.filter.since
		return []byte(": resumed\n\n"), nil
	}
	snap, err := rd.backend.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if rd.filter.resume && rd.filter.since <= snap.Seq {
		rd.cursor = rd.filter.since
		return []byte(": resumed\n\n"), nil
	}
	rd.cursor = snap.Seq
	if rd.filter.run != "" {
		if snap, err = rd.narrow(ctx, snap); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(whole(snap))
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "the snapshot cannot be written: %w", err)
	}
	return fmt.Appendf(nil, "id: %d\nevent: snapshot\ndata: %s\n\n", snap.Seq, data), nil
}

// whole has lists where a backend had nothing.
func whole(snap api.Snapshot) api.Snapshot {
	if snap.Workflows == nil {
		snap.Workflows = []core.Run{}
	}
	if snap.Approvals == nil {
		snap.Approvals = []core.Approval{}
	}
	return snap
}

// narrow leaves one run in a snapshot, in it or not.
func (rd *reader) narrow(ctx context.Context, snap api.Snapshot) (api.Snapshot, error) {
	wf, err := rd.backend.Workflow(ctx, rd.filter.run)
	if err != nil {
		return snap, err
	}
	snap.Workflows = []core.Run{wf.Run}
	asked := map[core.ID]bool{} // of an agent also what its runs ask
	for _, a := range wf.Approvals {
		asked[a.ID] = true
	}
	snap.Approvals = slices.DeleteFunc(slices.Clone(snap.Approvals), func(a core.Approval) bool { return a.RunID != rd.filter.run && !asked[a.ID] })
	return snap, nil
}

// run sends events until the reader goes, or is too slow, or the server stops.
func (rd *reader) run(ctx context.Context) error {
	heart := time.NewTicker(rd.s.o.Limits.Heartbeat)
	defer heart.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	texts := rd.texts(ctx)
	stopping := rd.s.stopping(ctx)
	var frames []*frame
	var buf []byte
	joined := false
	for {
		var more <-chan struct{}
		var ok bool
		frames, more, ok = rd.s.hub.after(rd.cursor, frames[:0])
		if !ok {
			if joined {
				return errSlow
			}
			if err := rd.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		joined = true
		if len(frames) > 0 {
			buf = rd.choose(frames, buf[:0])
			if err := rd.send(buf); err != nil {
				return err
			}
			more = ready
		}
		select {
		case <-more:
		case e := <-texts:
			text, err := pieceText(e)
			if err == nil {
				err = rd.send(text)
			}
			if err != nil {
				return err
			}
		case <-heart.C:
			if !stillMay(ctx) {
				return errRemoved
			}
			if err := rd.send([]byte(": heartbeat\n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-stopping:
			return rd.send([]byte(": the server stops\n\n"))
		case <-rd.s.ctx.Done():
			return rd.send([]byte(": the server stops\n\n"))
		}
	}
}

// texts are the pieces of what the model of the run writes, where they are asked for by
// the name of their type; nil where they are not. What a reader is too slow for comes
// together.
func (rd *reader) texts(ctx context.Context) <-chan core.Event {
	if rd.filter.run == "" || !slices.Contains(rd.filter.types, core.EventAgentText) {
		return nil
	}
	pieces := make(chan core.Event)
	go func() {
		defer core.Recover(rd.s.log, "what a model writes was sent to a reader", nil, "workflow_id", rd.filter.run)
		_ = rd.backend.Said(ctx, rd.filter.run, func(e core.Event) error { // it is best effort
			select {
			case pieces <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return pieces
}

// ready is a channel that is always closed.
var ready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enough is how much is written at once: a reader that is slow and not stuck
// must be able to take it within Limits.WriteTimeout.
const enough = 64 << 10

// choose appends frames that the reader wants to buf, and passes over the
// others, until that is enough for once.
func (rd *reader) choose(frames []*frame, buf []byte) []byte {
	for _, f := range frames {
		rd.cursor = f.seq
		if (rd.owner == "" || f.owner == rd.owner) && rd.filter.wants(f.run, f.typ) {
			if buf = append(buf, f.text...); len(buf) >= enough {
				break
			}
		}
	}
	return buf
}

// catchUp sends what is older than the ring from the store. Whatever the hub
// knew before is in the store, so what has been read reaches that far, though
// the newest of it may be of somebody else.
func (rd *reader) catchUp(ctx context.Context) error {
	reached := rd.s.hub.newest()
	var buf []byte
	err := rd.backend.Events(ctx, rd.filter.run, api.Since{Any: rd.cursor}, false, func(e core.Event) error {
		if !rd.filter.wants(e.RunID, e.Type) {
			rd.cursor = e.Seq
			return nil
		}
		text, err := frameText(e)
		if err != nil {
			return err
		}
		if buf = append(buf, text...); len(buf) >= enough {
			if err := rd.send(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		rd.cursor = e.Seq
		return nil
	})
	if err != nil {
		return err
	}
	rd.cursor = max(rd.cursor, reached)
	return rd.send(buf)
}

// send writes to the reader; one that does not take it is let go.
func (rd *reader) send(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if _, err := rd.w.Write(text); err != nil {
		return err
	}
	return rd.conn.Flush()
}
