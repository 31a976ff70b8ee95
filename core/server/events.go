package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/danielgtaylor/huma/v2"
)

// maxEvents is how many events a page has at most.
const maxEvents = 1000

// streamQuery is what a request for events asks for.
type streamQuery struct {
	run    core.ID // empty: all
	types  []core.EventType
	since  int64
	resume bool // since was given
	limit  int
}

func (q streamQuery) wants(run core.ID, t core.EventType) bool {
	return (q.run == "" || q.run == run) && (len(q.types) == 0 || slices.Contains(q.types, t))
}

func (s *Server) addStreams() {
	s.streamed(op("events", http.MethodGet, prefix+"/events", "What happens, as it happens; pages of it with Accept: application/json"), false)
	s.streamed(op("workflow-events", http.MethodGet, prefix+"/workflows/{id}/events", "What happened in a run; as it happens with Accept: text/event-stream"), true)
}

// streamed adds a path that answers with a stream or with pages of events.
func (s *Server) streamed(o huma.Operation, ofRun bool) {
	schemas := s.api.OpenAPI().Components.Schemas
	text, integer := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	o.Parameters = []*huma.Param{
		{Name: "types", In: "query", Description: "Types of events, with commas between; without, all that are kept. agent_text, which is not kept, goes only to streams of one run that name it", Schema: text},
		{Name: "since", In: "query", Description: "Events after this sequence number; then a stream begins with them and not with a snapshot", Schema: integer},
		{Name: "limit", In: "query", Description: "Of a page", Schema: integer},
		{Name: "Last-Event-ID", In: "header", Description: "As since, which it goes before", Schema: integer},
	}
	if ofRun {
		o.Parameters = append(o.Parameters, &huma.Param{Name: "id", In: "path", Required: true, Schema: text})
	} else {
		o.Parameters = append(o.Parameters, &huma.Param{Name: "workflow", In: "query", Description: "Events of this run", Schema: text})
	}
	frame := &huma.Schema{OneOf: []*huma.Schema{
		schemas.Schema(reflect.TypeFor[api.Snapshot](), true, ""), schemas.Schema(reflect.TypeFor[core.Event](), true, ""),
	}, Description: "The data of each frame"}
	o.Responses = map[string]*huma.Response{
		"200": {Description: "Frames: the first is a snapshot (schema Snapshot), the others are events (schema Event) whose id is their sequence number, or pieces of what a model writes, without one; or a page", Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: frame},
			"application/json":  {Schema: schemas.Schema(reflect.TypeFor[api.Page[core.Event]](), true, "")},
		}},
		"default": errorAnswer(),
	}
	s.api.OpenAPI().AddOperation(&o)
	s.routes.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) { s.events(w, r, ofRun) })
}

// events answers with a stream or a page, as Accept says.
func (s *Server) events(w http.ResponseWriter, r *http.Request, ofRun bool) {
	c, err := s.call(r.Context())
	if err != nil {
		s.failure(r.Context(), err).write(w)
		return
	}
	q, run, p := parseStream(r, ofRun)
	if p != nil {
		p.write(w)
		return
	}
	if run != "" {
		if q.run, _, err = c.run(r.Context(), run); err != nil {
			s.failure(r.Context(), err).write(w)
			return
		}
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	streams := strings.Contains(accept, "text/event-stream")
	if streams || !ofRun && !strings.Contains(accept, "application/json") {
		if r.Method == http.MethodHead {
			streamHeader(w)
			return
		}
		s.stream(w, r, c, q)
		return
	}
	s.eventPage(w, r, c, q)
}

// parseStream reads the parameters; all that is wrong is said together.
func parseStream(r *http.Request, ofRun bool) (q streamQuery, run string, p *problem) {
	params := r.URL.Query()
	q.limit, run = maxEvents, params.Get("workflow")
	known := []string{"types", "since", "limit", "workflow"}
	if ofRun {
		known, run = known[:3], r.PathValue("id")
	}
	var faults []core.Fault
	wrong := func(f core.Fault) { faults = append(faults, f) }
	for name := range params {
		if !slices.Contains(known, name) {
			wrong(core.Fault{Message: "query " + core.Visible(name, 40, false) + ": there is no such parameter" + core.Suggest(name, known)})
		}
	}
	for _, word := range words(params["types"]) {
		if t := core.EventType(word); t != core.EventAgentText && !slices.Contains(core.EventTypes, t) {
			wrong(core.Fault{Message: "query types: there is no type " + core.Visible(word, 40, false) + suggest(word, core.EventTypes)})
			continue
		}
		q.types = append(q.types, core.EventType(word))
	}
	if run == "" && slices.Contains(q.types, core.EventAgentText) {
		wrong(core.Fault{Message: "query types: what models write is told of one run at a time; name it with workflow"})
	}
	since := params.Get("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if since != "" {
		n, err := strconv.ParseInt(since, 10, 64)
		if err != nil || n < 0 {
			wrong(core.Fault{Message: "Last-Event-ID and since are sequence numbers, 0 or more"})
		}
		q.since, q.resume = n, true
	}
	limitOf(params, &q, wrong)
	if len(faults) > 0 {
		return q, "", invalid(faults)
	}
	return q, run, nil
}

func limitOf(params url.Values, q *streamQuery, wrong func(core.Fault)) {
	text := params.Get("limit")
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxEvents {
		wrong(core.Fault{Message: "query limit: it must be 1 to " + strconv.Itoa(maxEvents)})
	}
	q.limit = n
}

// eventPage answers with events that are kept, oldest first.
func (s *Server) eventPage(w http.ResponseWriter, r *http.Request, c call, q streamQuery) {
	full := errors.New("the page is full")
	out := api.Page[core.Event]{Items: []core.Event{}}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	err := c.Events(ctx, q.run, api.Since{Any: q.since}, false, func(e core.Event) error {
		if len(out.Items) == q.limit {
			out.Next = number(out.Items[q.limit-1].Seq)
			return full
		}
		if q.wants(e.RunID, e.Type) {
			out.Items = append(out.Items, e)
		}
		return nil
	})
	if err != nil && !errors.Is(err, full) {
		s.failure(r.Context(), err).write(w)
		return
	}
	data, err := json.Marshal(out)
	if err != nil {
		s.failure(r.Context(), err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // who does not listen any more needs no answer
}
