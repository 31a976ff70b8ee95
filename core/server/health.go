package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

// Health is the answer of healthz and readyz.
type Health struct {
	Status string `json:"status"`
}

// readyWithin is how long the store may take before the server is not ready.
const readyWithin = time.Second

func (s *Server) addServer() {
	add(s, op("server", http.MethodGet, prefix+"/server", "Which server this is, and what it does"), s.status)
	huma.Register(s.api, op("healthz", http.MethodGet, "/healthz", "The server answers; needs no key"), func(context.Context, *nothing) (*healthOutput, error) {
		return &healthOutput{Health{"ok"}}, nil
	})
	add(s, op("readyz", http.MethodGet, "/readyz", "The server and its store answer"), readyz)
	s.plain(op("openapi", http.MethodGet, prefix+"/openapi.json", "This document"), "application/openapi+json", s.document)
	if s.o.Metrics != nil {
		s.plain(op("metrics", http.MethodGet, "/metrics", "Metrics in Prometheus' format; over TCP for the keys that may read them"), "text/plain", s.metrics)
	}
	if s.o.Backup != nil {
		s.plain(op("backup", http.MethodGet, prefix+"/backup", "A backup of all runs of this server; on the socket only"), "application/x-tar", s.backup)
	}
	if s.o.MCP != nil {
		s.addMCP()
	}
}

// backup is of everybody's runs, and of what they hold: it is for the user whose server
// it is. An error after the first byte cuts the answer off.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	scope, _ := ScopeFrom(r.Context())
	if scope.Owner != "" || scope.Confined {
		problemOf(core.Errorf(core.CodePermissionDenied, "a backup is of everybody's runs, and is given on the server's socket only; use pml backup on its machine")).write(w)
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	out := &begun{w: w}
	if err := s.o.Backup(r.Context(), out); err != nil {
		if out.yes {
			panic(http.ErrAbortHandler)
		}
		s.failure(r.Context(), err).write(w)
	}
}

// begun says whether anything was written.
type begun struct {
	w   http.ResponseWriter
	yes bool
}

// Write implements io.Writer.
func (b *begun) Write(p []byte) (int, error) {
	if !b.yes {
		b.w.Header().Set("Content-Type", "application/x-tar")
		b.yes = true
	}
	return b.w.Write(p)
}

// plain adds a path whose answer is no JSON of this interface.
func (s *Server) plain(o huma.Operation, contentType string, handler http.HandlerFunc) {
	s.foreign(o, map[string]*huma.Response{"200": has("OK", contentType)}, handler)
}

// foreign adds a path with answers of its own.
func (s *Server) foreign(o huma.Operation, answers map[string]*huma.Response, handler http.HandlerFunc) {
	o.Responses = answers
	o.Responses["default"] = errorAnswer()
	s.api.OpenAPI().AddOperation(&o)
	s.routes.HandleFunc(o.Method+" "+o.Path, handler)
}

// has describes an answer of some content types; none of them: it is empty.
func has(about string, contentTypes ...string) *huma.Response {
	r := &huma.Response{Description: about}
	for _, kind := range contentTypes {
		if r.Content == nil {
			r.Content = map[string]*huma.MediaType{}
		}
		r.Content[kind] = &huma.MediaType{}
	}
	return r
}

// mcpPath is where MCP is mounted.
const mcpPath = "/mcp"

// addMCP describes MCP's transport as it is: its answers are messages of
// JSON-RPC, or text where there is no message to answer.
func (s *Server) addMCP() {
	const message, events, text = "application/json", "text/event-stream", "text/plain"
	s.foreign(op("mcp-POST", http.MethodPost, mcpPath, "A message of MCP (streamable HTTP)"), map[string]*huma.Response{
		"200": has("The answer, after its progress where it is a stream; an error of the protocol is an answer, too", message, events),
		"202": has("Taken; there is nothing to answer"),
		"400": has("The message, or its headers, are wrong", message),
		"404": has("There is no such session, or in revisions without sessions no such method", message),
		"413": has("The message is too long", message, problemType),
		"415": has("It is not JSON", text),
		"503": has("Too many sessions are busy", message),
	}, s.o.MCP.ServeHTTP)
	s.foreign(op("mcp-DELETE", http.MethodDelete, mcpPath, "Ends a session of MCP"), map[string]*huma.Response{
		"204": has("Ended"), "404": has("There is no such session", text), "405": has("This revision has no sessions", text),
	}, s.o.MCP.ServeHTTP)
	s.foreign(op("mcp-GET", http.MethodGet, mcpPath, "There is no stream to open: what is sent belongs to a request"), map[string]*huma.Response{
		"405": has("Use POST, or DELETE to end a session", text),
	}, s.o.MCP.ServeHTTP)
}

// metrics are those of everybody's runs, so not every key may read them.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	scope, _ := ScopeFrom(r.Context())
	if scope.Owner != "" && !slices.Contains(s.o.MetricsKeys, scope.Owner) {
		problemOf(core.Errorf(core.CodePermissionDenied, "the metrics are of everybody's runs, and the key %q may not read them; start the server with --allow-metrics %s, or read them on its socket", scope.Owner, scope.Owner)).write(w)
		return
	}
	s.o.Metrics.ServeHTTP(w, r)
}

// errorAnswer describes the answer to what cannot be done.
func errorAnswer() *huma.Response {
	return &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{
		problemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}},
	}}
}

// Document returns the OpenAPI document, as JSON.
func (s *Server) Document() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) }

// document answers with the OpenAPI document.
func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	data, err := s.Document()
	if err != nil {
		s.failure(r.Context(), err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/openapi+json")
	_, _ = w.Write(data) // who does not listen any more needs no answer
}

type statusOutput struct{ Body api.ServerStatus }

func (s *Server) status(ctx context.Context, c call, _ *nothing) (*statusOutput, error) {
	st := api.ServerStatus{Version: s.o.Version}
	if s.o.Status != nil {
		st = s.o.Status(ctx)
	}
	st.Protocol, st.Readers = api.Protocol, s.readers.count(c.scope.Owner)
	if c.scope.Owner == "" {
		return &statusOutput{st}, nil
	}
	own := api.ServerStatus{Version: st.Version, Protocol: st.Protocol, StartedAt: st.StartedAt, Store: st.Store, Readers: st.Readers}
	if err := c.count(ctx, &own); err != nil {
		return nil, err
	}
	return &statusOutput{own}, nil
}

// maxCounted is how many runs of each state an owner sees as a number.
const maxCounted = 500

// count fills in how much the caller has here.
func (c call) count(ctx context.Context, st *api.ServerStatus) error {
	for state, n := range map[core.RunState]*int{core.RunRunning: &st.Running, core.RunWaiting: &st.Waiting} {
		page, err := c.Workflows(ctx, []core.RunState{state}, maxCounted, "")
		if err != nil {
			return err
		}
		*n = len(page.Items)
	}
	list, err := c.Backend.Approvals(ctx, false)
	st.Approvals = len(list)
	return err
}

// Readers is how many read events now.
func (s *Server) Readers() int { return s.readers.count("") }

type healthOutput struct{ Body Health }

func readyz(ctx context.Context, c call, _ *nothing) (*healthOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Backend.Approvals(ctx, false)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = core.Errorf(core.CodeStoreBusy, "the store did not answer within %s", readyWithin)
	}
	if err != nil {
		return nil, problemWith(http.StatusServiceUnavailable, core.Errorf(core.CodeStoreBusy, "the server is not ready: its store does not answer; %w", err))
	}
	return &healthOutput{Health{"ok"}}, nil
}
