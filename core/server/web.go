package server

import (
	"context"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	pages "github.com/casys-ai/pml/core/page"
)

// web is what a browser sees of a server. It has checks of its own: a browser brings a
// cookie, which counts for the pages alone, never for the interface beside them.
type web struct {
	s      *Server
	mux    *http.ServeMux
	tokens tokens
}

// maxForm is how long a form may be, in bytes.
const maxForm = 64 << 10

func newWeb(s *Server) *web {
	w := &web{s: s, mux: http.NewServeMux(), tokens: tokens{clock: s.o.Clock}}
	w.mux.HandleFunc("GET /page.css", asset("text/css; charset=utf-8", pages.Style()))
	w.mux.HandleFunc("GET /page.js", asset("text/javascript; charset=utf-8", pages.Script()))
	w.mux.HandleFunc("GET /sign-in", w.signInPage)
	w.mux.HandleFunc("POST /sign-in", w.signIn)
	w.mux.HandleFunc("GET /pair", w.pairPage)
	w.mux.HandleFunc("POST /pair", w.pair)
	w.mux.HandleFunc("POST /sign-out", w.signedIn(w.signOut))
	w.mux.HandleFunc("GET /{$}", w.signedIn(w.inbox))
	w.mux.HandleFunc("GET /runs", w.signedIn(w.runs))
	w.mux.HandleFunc("GET /runs/{id}", w.signedIn(w.run))
	w.mux.HandleFunc("GET /approvals/{id}", w.signedIn(w.approval))
	w.mux.HandleFunc("POST /approvals/{id}", w.signedIn(w.decide))
	w.mux.HandleFunc("GET /approvals/{id}/bounds", w.signedIn(w.approval))
	w.mux.HandleFunc("POST /approvals/{id}/bounds", w.signedIn(w.bounds))
	w.mux.HandleFunc("POST /halt", w.signedIn(w.halt))
	w.mux.HandleFunc("GET /page/events", w.signedIn(w.events))
	return w
}

// asset answers with a file of this program.
func asset(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(text)) // who does not listen any more needs no answer
	}
}

// paged answers browsers, and leaves everything else to next: requests on the socket,
// with a key, and for other paths.
func (s *Server) paged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := s.web.mux.Handler(r)
		_, keyed := tokenOf(r)
		if s.o.Visitors == nil || pattern == "" || keyed || listenerOf(r.Context()).socket {
			next.ServeHTTP(w, r)
			return
		}
		secured(w.Header())
		if d := s.web.refused(r); d.why != "" {
			s.web.refuse(w, r, d)
			return
		}
		if r.Method == http.MethodPost {
			body, p := s.read(w, r, maxForm)
			if p != nil {
				w.Header().Set("Connection", "close")
				s.web.refuse(w, r, denial{p.Status, "body", p.Detail})
				return
			}
			form, err := url.ParseQuery(string(body))
			if err != nil {
				s.web.refuse(w, r, denial{http.StatusBadRequest, "body", "the form cannot be read"})
				return
			}
			r.PostForm, r.Form = form, form
		}
		s.web.mux.ServeHTTP(w, r)
	})
}

// secured sets what keeps a page from being used by another one. A referrer is sent to
// this server alone: without one a browser would not say where a form comes from.
func secured(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex, nofollow")
}

// refuse answers a request that is refused before anything is looked at.
func (b *web) refuse(w http.ResponseWriter, r *http.Request, d denial) {
	b.denied(r, d.code, d.why)
	b.message(w, r, d.status, "This is refused", d.why)
}

// refused says why no page is shown to a request, whoever sends it: it is addressed by a
// name that was made to point here, it came over the network in the clear, or another
// page made a browser send it.
func (b *web) refused(r *http.Request) denial {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case !b.s.knownHost(r.Host):
		return denial{http.StatusForbidden, "host", "this server is not known as " + core.Visible(r.Host, 100, false) + "; start it with that name allowed (--allow-host)"}
	case !b.private(r):
		return denial{http.StatusForbidden, "clear", "the pages are shown over TLS only, for what is typed here must not be read on the way: start pml serve with --tls-cert and --tls-key, or behind a proxy on the same machine that has them"}
	case r.Method != http.MethodPost:
		return denial{}
	case site != "" && site != "same-origin":
		return denial{http.StatusForbidden, "site", "another page has sent this"}
	case !b.own(r):
		return denial{http.StatusForbidden, "origin", "it does not say that it comes from a page of this server"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return denial{http.StatusUnsupportedMediaType, "form", "it is no form of this server"}
	}
	return denial{}
}

// private reports whether nobody on the way reads a request: it is encrypted, or has not
// left this machine, unless whoever started the server has said that this is no matter.
func (b *web) private(r *http.Request) bool {
	if r.TLS != nil || b.s.o.PlainPages {
		return true
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && loopback(nameOf(at.String()))
}

// own reports whether a form comes from a page of this server, as it is addressed: with
// TLS if the request has it. A proxy on this machine takes that off; then the page's
// own scheme is believed, which a browser says.
func (b *web) own(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	if strings.EqualFold(origins[0], "https://"+r.Host) {
		return true
	}
	return b.plain(r) && strings.EqualFold(origins[0], "http://"+r.Host)
}

// plain reports whether a browser sends a request without TLS: to this machine by its own
// name, or where that was said to be no matter.
func (b *web) plain(r *http.Request) bool {
	return r.TLS == nil && (loopback(nameOf(r.Host)) || b.s.o.PlainPages)
}

// visitor is a browser that is signed in. A device sees two halves: the server's, and
// this machine's own.
type visitor struct {
	halves  []call
	session session
}

// find is the half that has a run, or an approval, and their ids.
func (v visitor) find(ctx context.Context, text string) (c call, id, approval core.ID, err error) {
	for _, c = range v.halves {
		if id, approval, err = c.run(ctx, text); core.CodeOf(err) != core.CodeNotFound {
			return c, id, approval, err
		}
	}
	return c, "", "", err
}

// who is what a page calls the visitor.
func (v visitor) who() string {
	if v.session.Device != "" {
		return v.session.Device
	}
	return v.session.Key
}

// cookieOf is the name of the cookie: with the prefix a browser takes it over TLS only,
// from this very host.
func cookieOf(secure bool) string {
	if secure {
		return "__Host-pml"
	}
	return "pml-page"
}

// sessionOf is the session of a request. Cookies that are there twice are none: somebody
// else may have put one of them there, and so may a neighbour of a server that is
// addressed by a name, but for a cookie with the prefix.
func (b *web) sessionOf(r *http.Request) (s session, ok bool, err error) {
	found := r.CookiesNamed(cookieOf(true))
	if len(found) == 0 && b.plain(r) {
		found = r.CookiesNamed(cookieOf(false))
	}
	if len(found) != 1 || found[0].Value == "" {
		return s, false, nil
	}
	s, ok, err = b.s.o.Visitors.session(found[0].Value)
	if err != nil || !ok || s.Device != "" {
		return s, ok, err
	}
	if b.s.o.Keys == nil {
		return s, false, nil
	}
	ok, err = b.s.o.Keys.has(s.Key, s.KeyHash)
	return s, ok, err
}

// scopeOf is whose requests those of a session are: a device is of the user whose server
// it is, anything else of the owner of its key.
func (b *web) scopeOf(s session) api.Scope {
	if s.Device != "" {
		return api.Scope{By: core.Actor{Who: b.s.o.User, Via: core.ViaPage, Client: core.Client{Name: s.Device}}}
	}
	return api.Scope{Owner: s.Key, By: core.Actor{Who: s.Key, Via: core.ViaPage}}
}

// signedIn lets through who is signed in; others are asked to.
func (b *web) signedIn(next func(http.ResponseWriter, *http.Request, visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok, err := b.sessionOf(r)
		switch {
		case err != nil:
			b.failed(w, r, err)
			return
		case !ok && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site":
			b.show(w, http.StatusOK, pages.Through(r.URL.EscapedPath())) // a link of another page brings no cookie; one of ours does
			return
		case !ok && (r.Method != http.MethodGet || r.URL.Path == "/page/events"):
			b.denied(r, "session", "the browser is not signed in, or not any more")
			b.message(w, r, http.StatusUnauthorized, "You are not signed in", "nothing was done; sign in, and look at it again")
			return
		case !ok:
			http.Redirect(w, r, "/sign-in?"+url.Values{"next": {r.URL.EscapedPath()}}.Encode(), http.StatusSeeOther)
			return
		}
		if wait := b.s.limiter.wait("page "+s.Device+"/"+s.Key, b.s.o.Clock.Now()); wait > 0 {
			w.Header().Set("Retry-After", retryAfter(wait).Get("Retry-After"))
			b.denied(r, "often", "too many requests of one visitor")
			b.message(w, r, http.StatusTooManyRequests, "Too many requests", "wait a moment, and look again")
			return
		}
		scope := b.scopeOf(s)
		ctx := context.WithValue(r.Context(), scopeKey{}, scope)
		ctx = context.WithValue(ctx, againKey{}, func() bool {
			again, ok, err := b.sessionOf(r)
			return err == nil && ok && again == s
		})
		v := visitor{session: s}
		if v.halves, err = b.halvesOf(ctx, s, scope); err != nil {
			b.failed(w, r, err)
			return
		}
		next(w, r.WithContext(ctx), v)
	}
}

func (b *web) halvesOf(ctx context.Context, s session, scope api.Scope) ([]call, error) {
	c, err := b.s.call(ctx)
	if err != nil || s.Device == "" || b.s.o.Own == nil {
		return []call{c}, err
	}
	own, err := b.s.o.Own(scope)
	return []call{c, {own, b.s, scope}}, err
}

// show answers with a page.
func (b *web) show(w http.ResponseWriter, status int, p pages.Page) {
	text, err := p.HTML()
	if err != nil {
		b.s.log.Error("a page cannot be made", "error", core.AsError(err))
		http.Error(w, "something went wrong inside pml; the log of the server says what", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who does not listen any more needs no answer
}

func (b *web) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	b.show(w, status, pages.Message(title, text, r.Method != http.MethodGet || r.URL.Path != "/"))
}

// failed answers for an error, in the words that the interface has for it.
func (b *web) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := b.s.failure(r.Context(), err)
	b.message(w, r, p.Status, http.StatusText(p.Status), p.Detail)
}

// local are the paths of the pages that a sign-in may lead to: no other server, and
// nothing that does something.
var local = regexp.MustCompile(`^/((runs|approvals)/[0-9A-Za-z-]{4,64}|runs)?$`)

// nextOf is where a sign-in leads to.
func nextOf(text string) string {
	if local.MatchString(text) {
		return text
	}
	return "/"
}
