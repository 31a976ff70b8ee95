package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/casys-ai/pml/core"
)

// guarded is the handler of every path behind all checks.
func (s *Server) guarded() http.Handler {
	h := http.Handler(s.routes.mux)
	for _, check := range []func(http.Handler) http.Handler{s.whole, s.paced, s.authenticated, s.addressed, s.paged, s.survived, s.timed} {
		h = check(h)
	}
	return h
}

// timed ends a connection whose other end does not take what it asked for.
func (s *Server) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &timedWriter{ResponseWriter: w, conn: http.NewResponseController(w), within: s.o.Limits.WriteTimeout}
		next.ServeHTTP(t, r)
		if t.written > buffered {
			_ = t.FlushError() // the rest of it, while there is somebody to give up
		}
	})
}

// buffered is how much of an answer may wait in net/http; more does not fit.
const buffered = 2 << 10

// timedWriter bounds the time of each write, not of the answer: that may come
// in pieces for hours.
type timedWriter struct {
	http.ResponseWriter
	conn    *http.ResponseController
	within  time.Duration
	timer   *time.Timer
	written int
}

// Write sends p in pieces, each of which has its own time: a reader that is slow
// and not stuck gets the whole of a large answer.
func (t *timedWriter) Write(p []byte) (n int, err error) {
	for first := true; err == nil && (first || n < len(p)); first = false {
		piece := p[n:min(len(p), n+enough)]
		err = t.bounded(func() error {
			wrote, err := t.ResponseWriter.Write(piece)
			n += wrote
			t.written += wrote
			return err
		})
	}
	return n, err
}

// Flush implements http.Flusher.
func (t *timedWriter) Flush() { _ = t.FlushError() }

// FlushError is Flush for http.ResponseController.
func (t *timedWriter) FlushError() error { return t.bounded(t.conn.Flush) }

// Unwrap gives http.ResponseController the rest of the connection.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *timedWriter) bounded(write func() error) error {
	if t.timer == nil {
		t.timer = time.AfterFunc(t.within, func() {
			_ = t.conn.SetWriteDeadline(time.Unix(1, 0)) // without one there is no connection to hold up
		})
	} else {
		t.timer.Reset(t.within)
	}
	err := write()
	if !t.timer.Stop() {
		return errSlow
	}
	return err
}

// survived answers for a handler that panicked.
func (s *Server) survived(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			s.log.ErrorContext(r.Context(), "a handler panicked", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			if t, ok := w.(*timedWriter); ok && t.written > 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			problemOf(core.Errorf(core.CodeInternal, "something went wrong inside pml; the log of the server says what")).write(w)
		}()
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// limiter is a bucket of requests for each key.
type limiter struct {
	rate  float64
	burst int
	mu    sync.Mutex
	of    map[string]*rate.Limiter
}

// wait takes a request of an owner; a positive answer says when to come again.
func (l *limiter) wait(owner string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*rate.Limiter{}
	}
	bucket := l.of[owner]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Limit(l.rate), l.burst)
		l.of[owner] = bucket
	}
	r := bucket.ReserveN(now, 1)
	delay := r.DelayFrom(now)
	if delay > 0 {
		r.CancelAt(now)
	}
	return delay
}

// paced slows down a key that asks too often. This user, on the socket, is not.
func (s *Server) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scope, ok := ScopeFrom(r.Context()); ok && scope.Owner != "" {
			if wait := s.limiter.wait(scope.Owner, s.o.Clock.Now()); wait > 0 {
				limited(wait, "too many requests with this API key; at most %g a second are answered", s.limiter.rate).write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxDepth is how deeply a body may be nested: the values in it have their own
// limit, and it puts a few levels around them.
const maxDepth = core.MaxDepth + 20

// whole reads a request's body before anything acts on it, bounded in size and
// in time. The deadline must not outlast it: it would end long answers.
func (s *Server) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength > s.o.Limits.Body {
			tooLarge(s.o.Limits.Body).write(w)
			return
		}
		body, p := s.read(w, r, s.o.Limits.Body)
		if p != nil {
			w.Header().Set("Connection", "close")
			p.write(w)
			return
		}
		if core.Depth(body) > maxDepth && r.URL.Path != mcpPath { // which has its own form of errors
			invalid([]core.Fault{{Message: "the body is nested more than " + number(maxDepth) + " levels deep; make it flatter"}}).write(w)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *problem) {
	conn := http.NewResponseController(w)
	timer := time.AfterFunc(s.o.Limits.BodyTimeout, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // without one there is no connection to hold up
	})
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if !timer.Stop() {
		return nil, problemWith(http.StatusRequestTimeout, core.Errorf(core.CodeInvalidArguments, "the body of the request took longer than %s", s.o.Limits.BodyTimeout))
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, problemOf(core.Errorf(core.CodeInvalidArguments, "the body of the request broke off: %w", err))
	}
	return body, nil
}

func tooLarge(limit int64) *problem {
	return problemWith(http.StatusRequestEntityTooLarge, core.Errorf(core.CodeInvalidArguments, "the body of the request is larger than %d bytes", limit))
}

// places counts who has one: who reads events, or waits for an answer.
type places struct {
	total int // of all owners together; 0: no limit
	each  int // of one owner
	local int // of this user, on the socket; 0: no limit but total
	mu    sync.Mutex
	n     int
	of    map[string]int
}

// enter takes a place for an owner, if there is one.
func (c *places) enter(owner string) bool {
	most := c.each
	if owner == "" {
		most = c.local
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total > 0 && c.n >= c.total || most > 0 && c.of[owner] >= most {
		return false
	}
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.n++
	c.of[owner]++
	return true
}

func (c *places) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.of[owner]--; c.of[owner] == 0 {
		delete(c.of, owner)
	}
}

// count is how many an owner has, all together for none.
func (c *places) count(owner string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner != "" {
		return c.of[owner]
	}
	return c.n
}
