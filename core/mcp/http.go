package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Handler serves streamable HTTP. Who calls, and from where, is checked before:
// it takes the scope from the context and looks at neither Host nor Origin.
//
// Before revision 2026-07-28 a client has a session, whose id only its own
// scope may use; from then on every request stands alone.
func (e *Edge) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scope, ok := e.scope(r.Context())
		if !ok {
			http.Error(w, "nobody is known to be calling", http.StatusUnauthorized)
			return
		}
		switch {
		case r.Method == http.MethodPost:
			e.post(w, r, scope)
		case r.Method == http.MethodDelete && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)):
			e.leave(w, r, scope)
		case r.Method == http.MethodGet && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) && takesEvents(r):
			e.listenTo(w, r, scope)
		default:
			w.Header().Set("Allow", "GET, POST, DELETE")
			http.Error(w, "use POST, GET for the events of a session, or DELETE to end it", http.StatusMethodNotAllowed)
		}
	})
}

// takesEvents reports whether the answer may be a stream of events.
func takesEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// listenTo serves the stream of a session for what belongs to none of its
// requests. There is one at a time. Comments show that it lives.
func (e *Edge) listenTo(w http.ResponseWriter, r *http.Request, scope api.Scope) {
	s, ok := e.find(r.Header.Get(server.HeaderKeySessionID), holderOf(scope))
	if !ok {
		http.Error(w, "there is no such session; initialize anew", http.StatusNotFound)
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	events := &events{w: w, rc: rc}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	orGone := func(err error) error {
		if err != nil {
			cancel()
		}
		return err
	}
	out := &stream{send: func(message any) error { return orGone(events.send(message)) }, cut: events.cut, log: e.o.Log}
	out.dropWhenFull(cancel)
	stop, ok := e.serveMain(ctx, s, out)
	if !ok {
		http.Error(w, "the session has such a stream already", http.StatusConflict)
		return
	}
	defer func() {
		stop()
		out.quit()
	}()
	beat := time.NewTicker(e.o.Beat)
	defer beat.Stop()
	for {
		out.alive(func() error { return orGone(events.comment()) })
		select {
		case <-ctx.Done():
			return
		case <-s.over:
			return
		case <-beat.C:
		}
	}
}

// leave ends a session.
func (e *Edge) leave(w http.ResponseWriter, r *http.Request, scope api.Scope) {
	s, ok := e.find(r.Header.Get(server.HeaderKeySessionID), holderOf(scope))
	if !ok {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	e.remove(s)
	w.WriteHeader(http.StatusNoContent)
}

func (e *Edge) post(w http.ResponseWriter, r *http.Request, scope api.Scope) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the content type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.o.MaxMessage))
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			write(w, http.StatusRequestEntityTooLarge, refused(nil, mcp.INVALID_REQUEST, "the message is longer than "+strconv.FormatInt(long.Limit, 10)+" bytes"))
			return
		}
		write(w, http.StatusBadRequest, refused(nil, mcp.PARSE_ERROR, "the message did not arrive whole"))
		return
	}
	m, bad := parse(body)
	if bad != nil {
		write(w, http.StatusBadRequest, bad)
		return
	}
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	if mcp.IsModernProtocol(version) || mcp.IsModernProtocol(m.Params.Meta.Version) {
		e.alone(w, r, m, scope)
		return
	}
	if version != "" && !mcp.IsValidProtocolVersion(version) && m.Method != string(mcp.MethodInitialize) {
		write(w, http.StatusBadRequest, unsupported(m.ID, version))
		return
	}
	if v := m.unknownRevision(); v != "" {
		write(w, http.StatusBadRequest, unsupported(m.ID, v))
		return
	}
	e.inSession(w, r, m, scope)
}

// inSession serves a message of a revision with sessions.
func (e *Edge) inSession(w http.ResponseWriter, r *http.Request, m *message, scope api.Scope) {
	h := holderOf(scope)
	if m.Method == string(mcp.MethodInitialize) && m.isRequest() {
		s, err := e.open(h)
		if err != nil {
			w.Header().Set("Retry-After", "10")
			write(w, http.StatusServiceUnavailable, refused(m.ID, tooBusy, err.Error()))
			return
		}
		answer := e.dispatch(r.Context(), s, m, &stream{})
		if codeOf(answer) != 0 {
			e.remove(s)
		} else {
			w.Header().Set(server.HeaderKeySessionID, s.id)
		}
		write(w, http.StatusOK, answer)
		return
	}
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" && m.isNotification() && r.Header.Get(mcp.HeaderProtocolVersion) == "" {
		// It names nothing that it could be about. Some clients without sessions
		// cancel like that, after they have closed the stream, which counts.
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if id == "" {
		write(w, http.StatusBadRequest, refused(m.ID, mcp.INVALID_REQUEST, "the header "+server.HeaderKeySessionID+" is missing; initialize first"))
		return
	}
	s, ok := e.find(id, h)
	if !ok {
		write(w, http.StatusNotFound, refused(m.ID, mcp.INVALID_REQUEST, "there is no such session; initialize anew"))
		return
	}
	defer func() { s.touch(e.o.Clock.Now()) }()
	e.reply(w, r, s, m, false)
}

// lone numbers the requests without sessions: mcp-go keeps requests apart by
// the names of their sessions.
var lone atomic.Int64

// alone serves a message of a revision without sessions.
func (e *Edge) alone(w http.ResponseWriter, r *http.Request, m *message, scope api.Scope) {
	if bad := modernHeaders(r.Header, m); bad != nil {
		write(w, http.StatusBadRequest, bad)
		return
	}
	s := newSession("lone-"+strconv.FormatInt(lone.Add(1), 10), holderOf(scope), e.o.Clock.Now())
	e.reply(w, r, s, m, true)
}

// modernHeaders checks that headers and body say the same, as revision
// 2026-07-28 wants: what stands between reads the headers only.
func modernHeaders(h http.Header, m *message) *reply {
	said, meant := h.Get(mcp.HeaderProtocolVersion), m.Params.Meta.Version
	switch {
	case h.Get(mcp.HeaderLastEventID) != "":
		return refused(m.ID, mcp.HEADER_MISMATCH, "streams cannot be resumed in this revision; send the request again with a new id")
	case said == "":
		return refused(m.ID, mcp.HEADER_MISMATCH, "the header "+mcp.HeaderProtocolVersion+" is missing")
	case meant == "" && m.isRequest():
		return refused(m.ID, mcp.INVALID_PARAMS, "_meta says no "+mcp.MetaKeyProtocolVersion)
	case meant != "" && said != meant:
		return refused(m.ID, mcp.HEADER_MISMATCH, "the header "+mcp.HeaderProtocolVersion+" and "+mcp.MetaKeyProtocolVersion+" differ")
	case !m.isRequest():
		return nil
	}
	var params struct {
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(m.raw, &params); err != nil {
		return refused(m.ID, mcp.PARSE_ERROR, "the message is not valid JSON")
	}
	if err := mcp.ValidateStandardHeaders(h.Get, said, mcp.MCPMethod(m.Method), params.Params); err != nil {
		return refused(m.ID, mcp.HEADER_MISMATCH, core.Visible(err.Error(), 300, false))
	}
	return nil
}

// reply dispatches a message and writes its answer, as an event stream if there
// was progress before.
func (e *Edge) reply(w http.ResponseWriter, r *http.Request, s *session, m *message, modern bool) {
	// A call may take longer than what the server allows others.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})

	events := &events{w: w, rc: rc}
	out := &stream{log: e.o.Log}
	if takesEvents(r) {
		out.send, out.cut = events.send, events.cut
	}
	answer := e.dispatch(r.Context(), s, m, out)
	switch {
	case events.open && answer != nil:
		_ = orRefused(events.send, answer, m.ID)
	case events.open:
	case answer == nil:
		w.WriteHeader(http.StatusAccepted)
	case modern:
		write(w, statusOf(codeOf(answer)), answer)
	default:
		write(w, http.StatusOK, answer)
	}
}

// events is an answer as a stream of server-sent events.
type events struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	open bool
}

// send writes a message as an event. Calls do not overlap: notifications come
// through a stream, the answer after it has ended.
func (ev *events) send(message any) error {
	raw, err := onWire(message)
	if err != nil {
		return err
	}
	ev.begin()
	if _, err := ev.w.Write([]byte("event: message\ndata: " + string(raw) + "\n\n")); err != nil {
		return err
	}
	return ev.rc.Flush()
}

// comment writes what no client reads, to show that the stream lives.
func (ev *events) comment() error {
	ev.begin()
	if _, err := ev.w.Write([]byte(": pml\n\n")); err != nil {
		return err
	}
	return ev.rc.Flush()
}

// cut makes a write that is under way fail, and all that follow.
func (ev *events) cut() { _ = ev.rc.SetWriteDeadline(time.Unix(1, 0)) }

func (ev *events) begin() {
	if ev.open {
		return
	}
	ev.open = true
	h := ev.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	ev.w.WriteHeader(http.StatusOK)
}

// write sends an answer as JSON.
func write(w http.ResponseWriter, status int, answer any) {
	raw, err := onWire(answer)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// statusOf is the HTTP status that revision 2026-07-28 wants for an error.
func statusOf(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
