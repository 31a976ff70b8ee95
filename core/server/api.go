package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// prefix is where the interface is; what follows it belongs to this version.
const prefix = "/api/v1"

// routes is a mux that remembers its patterns, so that a test can compare them
// with the OpenAPI document.
type routes struct {
	mux      *http.ServeMux
	patterns []string
}

// HandleFunc keeps the pattern beside the handler: the document must name each.
func (r *routes) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	r.patterns = append(r.patterns, pattern)
	r.mux.HandleFunc(pattern, handler)
}

// ServeHTTP implements http.Handler.
func (r *routes) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// huma makes its errors, and decides about upper and lower case, by variables
// of its package; they are set once, before its first use.
var setHuma = sync.OnceFunc(func() {
	huma.NewErrorWithContext = humaError
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaError(nil, status, msg, errs...)
	}
	huma.ValidateStrictCasing = true
})

// newAPI registers every path.
func newAPI(s *Server) huma.API {
	setHuma()
	config := huma.DefaultConfig("pml", s.o.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil
	config.AllowAdditionalPropertiesByDefault = true // of answers; readers tolerate them
	config.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: writeEncoded, Unmarshal: unmarshal}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	config.Transformers = append(config.Transformers, encode)
	config.Info.Description = "Runs workflows of MCP tools, asks a person before what matters, and tells what happens as it happens."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: "/", Description: "This server, on its socket or at the address that it listens at"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key. Over TCP only; on the socket none is needed."},
		"key":    {Type: "apiKey", In: "header", Name: "x-api-key"},
	}
	config.Security = []map[string][]string{{"bearer": {}}, {"key": {}}, {}}
	a := humago.New(s.routes, config)
	s.api = a
	s.addRuns()
	s.addReads()
	s.addApprovals()
	s.addAudit()
	s.addFlows()
	s.addPin()
	s.addHalt()
	s.addServer()
	s.addStreams()
	tune(a.OpenAPI())
	s.routes.mux.HandleFunc("/", s.noRoute)
	return a
}

// op begins the description of an operation.
func op(id, method, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		// The body was read, bounded and in time, before; a deadline set here
		// would end answers that take long.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
	}
}

// add registers an operation that acts in the scope of its request.
func add[I, O any](s *Server, o huma.Operation, f func(ctx context.Context, c call, in *I) (*O, error)) {
	o.Metadata = map[string]any{registryKey: s.api.OpenAPI().Components.Schemas}
	huma.Register(s.api, o, func(ctx context.Context, in *I) (*O, error) {
		c, err := s.call(ctx)
		if err != nil {
			return nil, s.failure(ctx, err)
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, s.failure(ctx, err)
		}
		return out, nil
	})
}

// call is a request's part of the server half.
type call struct {
	Backend
	s     *Server
	scope api.Scope
}

func (s *Server) call(ctx context.Context) (call, error) {
	scope, ok := ScopeFrom(ctx)
	if !ok {
		return call{}, core.Errorf(core.CodeAuth, "nobody has said who calls")
	}
	b, err := s.o.Half(scope)
	return call{b, s, scope}, err
}

// waits runs what may wait for a run in one of the places that the caller has
// for that. What does not wait is answered whatever waits.
func (c call) waits(wait time.Duration, f func() (api.Result, error)) (*outcome, error) {
	if wait != 0 {
		if !c.s.waiting.enter(c.scope.Owner) {
			return nil, limited(5*time.Second, "too many requests wait for runs; nothing was done. Wait for some to be answered, or follow the events instead")
		}
		defer c.s.waiting.leave(c.scope.Owner)
	}
	return outcomeOf(f())
}

// run resolves the id of a run, or the id of an approval to its run.
func (c call) run(ctx context.Context, text string) (id, approval core.ID, err error) {
	if len(text) > 64 {
		return "", "", core.Errorf(core.CodeNotFound, "there is no run or approval %q", core.Visible(text, 64, false))
	}
	return c.Resolve(ctx, text)
}

// approvalOf resolves the id of an approval, of a run or one below it if one is given.
func (c call) approvalOf(ctx context.Context, run core.ID, text string) (core.ID, error) {
	id, approval, err := c.run(ctx, text)
	if err != nil {
		return "", err
	}
	if approval == "" || run != "" && !api.Below(ctx, c, id, run) {
		e := core.Errorf(core.CodeNotFound, "there is no approval %q", core.Visible(text, 64, false)).WithNext("pml", "approvals", "ls")
		if run != "" {
			e = core.Errorf(core.CodeNotFound, "the run %s has no approval %q", run.Short(), core.Visible(text, 64, false)).WithRun(run).WithNext("pml", "approvals", "ls")
		}
		return "", e
	}
	return approval, nil
}

// noRoute answers for a path, or a method of one, that is not there.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.routes.mux.Handler(other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	if len(methods) > 0 {
		p := problemWith(http.StatusMethodNotAllowed, core.Errorf(core.CodeUsage, "%s takes %s, not %s", core.Visible(r.URL.Path, 100, false), strings.Join(methods, " or "), core.Visible(r.Method, 20, false)))
		p.headers = http.Header{"Allow": {strings.Join(methods, ", ")}}
		p.write(w)
		return
	}
	problemWith(http.StatusNotFound, core.Errorf(core.CodeUsage, "there is no path %s; %s/openapi.json lists all", core.Visible(r.URL.Path, 100, false), prefix)).write(w)
}

// invalid is the answer to a request with faults, all of them.
func invalid(faults []core.Fault) *problem {
	e := core.Errorf(core.CodeInvalidArguments, "the request is not valid, and nothing was done: %s", faults[0])
	if len(faults) > 1 {
		e = core.Errorf(core.CodeInvalidArguments, "the request has %d faults, and nothing was done", len(faults))
	}
	e.Faults = faults
	return problemOf(e)
}

// humaError makes a problem of what huma found wrong. Values are left out:
// there may be a key among them.
func humaError(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	switch status {
	case http.StatusUnprocessableEntity, http.StatusBadRequest, 0:
	case http.StatusUnsupportedMediaType:
		return problemWith(status, core.Errorf(core.CodeInvalidArguments, "the body must be JSON, with Content-Type: application/json"))
	default:
		code := core.CodeInvalidArguments
		if status >= http.StatusInternalServerError {
			code = core.CodeInternal
		}
		return problemWith(status, core.Errorf(code, "%s", msg))
	}
	var faults []core.Fault
	for _, err := range errs {
		if d, ok := err.(huma.ErrorDetailer); ok {
			faults = append(faults, faultOf(ctx, d.ErrorDetail()))
		} else if err != nil {
			faults = append(faults, core.Fault{Message: err.Error()})
		}
	}
	if len(faults) == 0 {
		faults = []core.Fault{{Message: msg}}
	}
	return invalid(faults)
}

// page is how a list is answered.
type page[T any] struct {
	Body api.Page[T]
}

func pageOf[T any](items []T, next string) *page[T] {
	if items == nil {
		items = []T{}
	}
	return &page[T]{Body: api.Page[T]{Items: items, Next: next}}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
