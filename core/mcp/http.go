package mcp

import (
	"context"
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
	"github.com/casys-ai/pml/core/jsonrpc"
)

// Handler serves streamable HTTP. Who calls, and from where, is checked before:
// it takes the scope from the context and looks at neither Host nor Origin.
//
// Before revision 2026-07-28 a client has a session, whose id only its own
// scope may use; from then on every request stands alone. A list or a call of tools
// without session and revision stands alone, too.
func (e *Edge) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scope, ok := e.scope(r.Context())
		if !ok {
			http.Error(w, "nobody is known to be calling", http.StatusUnauthorized)
			return
		}
		x := exchange{e, w, r, scope}
		switch {
		case r.Method == http.MethodPost:
			x.post()
		case r.Method == http.MethodDelete && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)):
			x.leave()
		case r.Method == http.MethodGet && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) && takesEvents(r):
			x.listen()
		default:
			w.Header().Set("Allow", "GET, POST, DELETE")
			http.Error(w, "use POST, GET for the events of a session, or DELETE to end it", http.StatusMethodNotAllowed)
		}
	})
}

// exchange is a request over HTTP and the response to it.
type exchange struct {
	e     *Edge
	w     http.ResponseWriter
	r     *http.Request
	scope api.Scope
}

// takesEvents reports whether the answer may be a stream of events.
func takesEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// listen serves the stream of a session for what belongs to none of its
// requests. There is one at a time. Comments show that it lives.
func (x exchange) listen() {
	s, ok := x.e.sessions.find(x.r.Header.Get(server.HeaderKeySessionID), holderOf(x.scope))
	if !ok {
		http.Error(x.w, "there is no such session; initialize anew", http.StatusNotFound)
		return
	}
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	events := &events{w: x.w, rc: rc}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	orGone := func(err error) error {
		if err != nil {
			cancel()
		}
		return err
	}
	out := &stream{send: func(message []byte) error { return orGone(events.send(message)) }, cut: events.cut, log: x.e.o.Log}
	out.dropWhenFull(cancel)
	stop, ok := x.e.serveMain(ctx, s, out)
	if !ok {
		http.Error(x.w, "the session has such a stream already", http.StatusConflict)
		return
	}
	defer func() {
		stop()
		out.quit()
	}()
	beat := time.NewTicker(x.e.o.Beat)
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
func (x exchange) leave() {
	s, ok := x.e.sessions.find(x.r.Header.Get(server.HeaderKeySessionID), holderOf(x.scope))
	if !ok {
		http.Error(x.w, "there is no such session", http.StatusNotFound)
		return
	}
	x.e.sessions.remove(s)
	x.w.WriteHeader(http.StatusNoContent)
}

func (x exchange) post() {
	if kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(x.w, "the content type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.e.o.MaxMessage))
	if err != nil {
		if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
			x.write(http.StatusRequestEntityTooLarge, jsonrpc.Refuse(nil, mcp.INVALID_REQUEST, "the message is longer than "+strconv.FormatInt(long.Limit, 10)+" bytes"))
			return
		}
		x.write(http.StatusBadRequest, jsonrpc.Refuse(nil, mcp.PARSE_ERROR, "the message did not arrive whole"))
		return
	}
	m, bad := parse(body)
	if bad != nil {
		x.write(http.StatusBadRequest, bad)
		return
	}
	version := x.r.Header.Get(mcp.HeaderProtocolVersion)
	if mcp.IsModernProtocol(version) || mcp.IsModernProtocol(m.Params.Meta.Version) {
		x.alone(m)
		return
	}
	if version != "" && !mcp.IsValidProtocolVersion(version) && m.Method != string(mcp.MethodInitialize) {
		x.write(http.StatusBadRequest, unsupported(m.ID, version))
		return
	}
	if v := m.unknownRevision(); v != "" {
		x.write(http.StatusBadRequest, unsupported(m.ID, v))
		return
	}
	x.inSession(m)
}

// inSession serves a message of a revision with sessions.
func (x exchange) inSession(m *message) {
	h := holderOf(x.scope)
	if m.Method == string(mcp.MethodInitialize) && m.isRequest() {
		s, err := x.e.sessions.begin(h)
		if err != nil {
			x.w.Header().Set("Retry-After", "10")
			x.write(http.StatusServiceUnavailable, jsonrpc.Refuse(m.ID, tooBusy, err.Error()))
			return
		}
		answer := x.e.dispatch(x.r.Context(), s, m, &stream{})
		if answer.Code() != 0 {
			x.e.sessions.remove(s)
		} else {
			x.w.Header().Set(server.HeaderKeySessionID, s.id)
		}
		x.write(http.StatusOK, answer)
		return
	}
	id := x.r.Header.Get(server.HeaderKeySessionID)
	if id == "" && m.isNotification() && x.r.Header.Get(mcp.HeaderProtocolVersion) == "" {
		// It names nothing that it could be about. Some clients without sessions
		// cancel like that, after they have closed the stream, which counts.
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if id == "" && m.standsAlone() && x.r.Header.Get(mcp.HeaderProtocolVersion) == "" {
		s := x.loneSession()
		s.Initialize()
		x.reply(s, m, false)
		return
	}
	if id == "" {
		x.write(http.StatusBadRequest, jsonrpc.Refuse(m.ID, mcp.INVALID_REQUEST, "the header "+server.HeaderKeySessionID+" is missing; initialize first"))
		return
	}
	s, ok := x.e.sessions.find(id, h)
	if !ok {
		x.write(http.StatusNotFound, jsonrpc.Refuse(m.ID, mcp.INVALID_REQUEST, "there is no such session; initialize anew"))
		return
	}
	defer func() { s.touch(x.e.o.Clock.Now()) }()
	x.reply(s, m, false)
}

// lone numbers the requests without sessions: mcp-go keeps requests apart by
// the names of their sessions.
var lone atomic.Int64

func (x exchange) loneSession() *session {
	return newSession("lone-"+strconv.FormatInt(lone.Add(1), 10), holderOf(x.scope), x.e.o.Clock.Now())
}

// standsAlone reports whether a request needs no session, though it is of no
// revision that has none: the list of tools, and a call. Clients of pml's first
// server send nothing else, and never initialize.
func (m *message) standsAlone() bool {
	return m.isRequest() && (m.Method == string(mcp.MethodToolsCall) || m.Method == string(mcp.MethodToolsList))
}

// alone serves a message of a revision without sessions.
func (x exchange) alone(m *message) {
	if bad := modernHeaders(x.r.Header, m); bad != nil {
		x.write(http.StatusBadRequest, bad)
		return
	}
	if bad := x.e.paramHeaders(x.r.Context(), x.r.Header, m, holderOf(x.scope)); bad != nil {
		x.write(http.StatusBadRequest, bad)
		return
	}
	x.reply(x.loneSession(), m, true)
}

// modernHeaders checks that headers and body say the same, as revision
// 2026-07-28 wants: what stands between reads the headers only.
func modernHeaders(h http.Header, m *message) *jsonrpc.Response {
	said, meant := h.Get(mcp.HeaderProtocolVersion), m.Params.Meta.Version
	switch {
	case h.Get(mcp.HeaderLastEventID) != "":
		return jsonrpc.Refuse(m.ID, mcp.HEADER_MISMATCH, "streams cannot be resumed in this revision; send the request again with a new id")
	case said == "":
		return jsonrpc.Refuse(m.ID, mcp.HEADER_MISMATCH, "the header "+mcp.HeaderProtocolVersion+" is missing")
	case meant == "" && m.isRequest():
		return jsonrpc.Refuse(m.ID, mcp.INVALID_PARAMS, "_meta says no "+mcp.MetaKeyProtocolVersion)
	case meant != "" && said != meant:
		return jsonrpc.Refuse(m.ID, mcp.HEADER_MISMATCH, "the header "+mcp.HeaderProtocolVersion+" and "+mcp.MetaKeyProtocolVersion+" differ")
	case !m.isRequest():
		return nil
	}
	if err := mcp.ValidateStandardHeaders(h.Get, said, mcp.MCPMethod(m.Method), m.Message.Params); err != nil {
		return jsonrpc.Refuse(m.ID, mcp.HEADER_MISMATCH, core.Visible(err.Error(), 300, false))
	}
	return nil
}

// reply dispatches a message and writes its answer, as an event stream if there
// was progress before.
func (x exchange) reply(s *session, m *message, modern bool) {
	// A call may take longer than what the server allows others.
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})

	events := &events{w: x.w, rc: rc}
	out := &stream{log: x.e.o.Log}
	if takesEvents(x.r) {
		out.send, out.cut = events.send, events.cut
	}
	answer := x.e.dispatch(x.r.Context(), s, m, out)
	switch {
	case events.open && answer != nil:
		_ = events.send(answer.Encode())
	case events.open:
	case modern:
		x.write(statusOf(answer.Code()), answer)
	default:
		x.write(http.StatusOK, answer)
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
func (ev *events) send(message []byte) error {
	ev.begin()
	if err := jsonrpc.WriteEvent(ev.w, message); err != nil {
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

// write sends an answer as JSON, or that there is none.
func (x exchange) write(status int, answer *jsonrpc.Response) {
	if answer == nil {
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(answer.Encode())
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
