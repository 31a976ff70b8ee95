package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// stormy is a server over HTTP that asks in the stream of each call, as often as
// ask says, and answers once it has got an answer to each. It counts the answers
// that are on their way at once; hold, unless it is nil, lets none arrive.
type stormy struct {
	ask              int
	request          string // method and params
	hold             chan struct{}
	now, most, total atomic.Int64
	all              chan struct{}
}

func (s *stormy) launch(t *testing.T) upstream.Launch {
	t.Helper()
	s.all = make(chan struct{})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return upstream.Launch{Name: "s", URL: srv.URL, Digest: "d"}
}

func (s *stormy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var msg message
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	switch {
	case msg.Method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, msg.ID)
	case msg.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range s.ask {
			if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q%d\",%s}\n\n", i, s.request); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-s.all:
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", msg.ID)
		case <-r.Context().Done():
		}
	case msg.Method == "" && len(msg.ID) > 0:
		s.answered(r)
		w.WriteHeader(http.StatusAccepted)
	case len(msg.ID) > 0:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, msg.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *stormy) answered(r *http.Request) {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-r.Context().Done():
			return
		}
	}
	if s.total.Add(1) == int64(s.ask) {
		close(s.all)
	}
}

// A server that asks without end and takes no answer loses its connection, and
// holds few of pml's own meanwhile. It can be called again.
func TestHTTP_AsksWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"pings":   `"method":"ping"`,
		"unknown": `"method":"sampling/createMessage","params":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stormy{ask: 3000, request: request, hold: make(chan struct{})}
			m, l := newManager(t, nil), s.launch(t)
			for range 2 {
				_, err := call(t, m, l, "t", `{}`)
				wantCode(t, err, core.CodeServerUnreachable, "was given up while calling t: it asks without taking the answers")
			}
			if most := s.most.Load(); most > 8 { // four of each connection
				t.Errorf("%d answers were on their way at once", most)
			}
		})
	}
}

// Answers wait for each other, and all arrive.
func TestHTTP_AnswersInTurn(t *testing.T) {
	t.Parallel()
	s := &stormy{ask: 200, request: `"method":"ping"`}
	if _, err := call(t, newManager(t, nil), s.launch(t), "t", `{}`); err != nil {
		t.Fatal(err)
	}
	if most := s.most.Load(); most > 4 {
		t.Errorf("%d answers were on their way at once", most)
	}
}
