package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core"
)

const (
	callbackPath = "/callback"
	maxQuery     = 8 << 10
	pageTime     = 2 * time.Second // for a page to reach the browser
)

var (
	errHeard = errors.New("another pml hears the callback")
	errPort  = errors.New("the port is in use")
)

// hearing is a listener at a callback. Its lock tells other processes of pml
// that the port is not a stranger's; the system drops it with the process.
type hearing struct {
	listener net.Listener
	lock     *flock.Flock
	server   *http.Server
	served   chan struct{} // closed when the server has ended
}

// hear listens at the redirect port of a flow that was begun. errHeard means that
// another process of pml does, errPort that somebody else has the port.
func (c *Client) hear(ctx context.Context, r resource, port string) (*hearing, error) {
	lock := c.heardLock(r)
	ok, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errHeard
	}
	h, err := listen(ctx, port, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return h, nil
}

// open listens for a new flow, on any port for "0". The lock may be with a
// process whose own flow is over and that has not noticed yet: it is claimed
// later then.
func (c *Client) open(ctx context.Context, r resource, port string) (*hearing, error) {
	h, err := listen(ctx, port, c.heardLock(r))
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot listen for the callback on %s: %w", loopbackAddress(port), err)
	}
	h.claim()
	return h, nil
}

func (c *Client) heardLock(r resource) *flock.Flock {
	return flock.New(filepath.Join(c.o.Dir, r.key+".heard"), flock.SetPermissions(0o600))
}

func listen(ctx context.Context, port string, lock *flock.Flock) (*hearing, error) {
	if port == "" { // a file that was changed by hand
		return nil, errPort
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", loopbackAddress(port))
	if err != nil {
		return nil, errors.Join(errPort, err)
	}
	return &hearing{listener: l, lock: lock}, nil
}

// claim takes the lock if nobody has it. Without it all goes well, unless a
// third process begins the flow: it would take us for a stranger and begin
// anew.
func (h *hearing) claim() {
	if !h.lock.Locked() {
		_, _ = h.lock.TryLock() // tried again on the next tick
	}
}

func (h *hearing) port() string {
	_, port, _ := net.SplitHostPort(h.listener.Addr().String())
	return port
}

// close gives the port back, and then the lock.
func (h *hearing) close() {
	_ = errors.Join(h.listener.Close(), h.lock.Close()) // nobody was told of the port
}

// serve answers at the callback until deafen.
func (f *Flow) serve(h *hearing) {
	h.server = &http.Server{
		Handler:           http.HandlerFunc(f.callback),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		MaxHeaderBytes:    maxQuery + 8<<10,
		ErrorLog:          log.New(io.Discard, "", 0), // what strangers send
	}
	h.server.SetKeepAlivesEnabled(false)
	h.served = make(chan struct{})
	f.heard = h
	go func() {
		defer close(h.served)
		if err := h.server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
			f.c.o.Logger.Warn("the callback is not heard any more", "server", f.s.Name, "err", err)
		}
	}()
}

// deafen stops hearing: the page that says how it went is delivered first, and
// an answer that is being dealt with is dealt with.
func (f *Flow) deafen() {
	if f.heard != nil {
		ctx, cancel := context.WithTimeout(context.Background(), pageTime)
		defer cancel()
		if err := f.heard.server.Shutdown(ctx); err != nil {
			_ = f.heard.server.Close() // a browser that does not read
		}
		<-f.heard.served
	}
	f.answering.Lock() // who had it is done; who comes later sees that the flow is over
	defer f.answering.Unlock()
	if f.heard != nil {
		_ = f.heard.lock.Close() // dropped with the process at the latest
	}
}

// callback answers the browser. Whatever is not the one answer that the flow
// waits for is refused and changes nothing.
func (f *Flow) callback(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Host != loopbackAddress(f.port): // a name that was made to point here
		page(w, http.StatusBadRequest, "This is not the address that pml listens at.")
		return
	case req.URL.EscapedPath() != callbackPath:
		page(w, http.StatusNotFound, "There is nothing here.")
		return
	case req.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		page(w, http.StatusMethodNotAllowed, "There is nothing here.")
		return
	}
	code, mine, err := f.p.answer(req.URL.RawQuery)
	if !mine {
		page(w, http.StatusBadRequest, "This is not the answer that pml waits for. It goes on waiting.")
		return
	}
	first, err := f.settle(code, err)
	switch name := core.Visible(f.s.Name, 100, false); {
	case !first:
		page(w, http.StatusBadRequest, "This answer was used before, or nobody waits for it any more.")
	case err != nil:
		page(w, http.StatusOK, "pml could not connect "+name+": "+core.Visible(err.Error(), 500, false))
	default:
		page(w, http.StatusOK, "pml is connected to "+name+". You can close this window.")
	}
}

// settle deals with the answer and ends the flow; first is false when it is
// over already. Waiters are woken once the page is delivered.
func (f *Flow) settle(code string, refusal error) (first bool, err error) {
	f.answering.Lock()
	defer f.answering.Unlock()
	select {
	case <-f.quit:
		return false, nil
	default:
	}
	if err = refusal; err == nil {
		err = f.complete(code)
	}
	if err != nil {
		f.fail(err)
	}
	f.finish(err) // while the lock is held: whoever comes next is too late
	return true, err
}

// answer reads the query of a callback. mine is false for one that does not
// carry the flow's state. One that carries it and comes from another issuer is
// an error, whatever it says otherwise (RFC 9207 §2.4).
func (p *pending) answer(query string) (code string, mine bool, err error) {
	if len(query) > maxQuery || p.State == "" {
		return "", false, nil
	}
	v, err := url.ParseQuery(query)
	if err != nil || len(v["state"]) != 1 || subtle.ConstantTimeCompare([]byte(v.Get("state")), []byte(p.State)) != 1 {
		return "", false, nil
	}
	for _, name := range []string{"code", "error", "error_description", "iss"} {
		if len(v[name]) > 1 { // RFC 6749 §3.1
			return "", true, core.Errorf(core.CodeAuth, "the answer of %s names %s twice; begin again", p.Issuer, name)
		}
	}
	switch iss := v.Get("iss"); {
	case v.Has("iss") && iss != p.Issuer:
		return "", true, core.Errorf(core.CodeAuth, "the answer comes from %q and not from %s, which was asked; nothing was sent to either; begin again",
			core.Visible(iss, 200, false), p.Issuer)
	case !v.Has("iss") && p.IssRequired:
		return "", true, core.Errorf(core.CodeAuth, "the answer does not say that it comes from %s, as that server does; begin again", p.Issuer)
	}
	why := because(v.Get("error"), v.Get("error_description"), p.State, v.Get("code"))
	switch {
	case v.Get("error") == "access_denied":
		return "", true, core.Errorf(core.CodeDenied, "the person did not consent%s", why)
	case v.Has("error"):
		return "", true, core.Errorf(core.CodeAuth, "%s refused%s; begin again", p.Issuer, why)
	case v.Get("code") == "":
		return "", true, core.Errorf(core.CodeAuth, "the answer of %s has no code; begin again", p.Issuer)
	}
	return v.Get("code"), true, nil
}

// page writes a small page without anything that runs or is fetched, and from
// which the address, with the code in it, is not passed on.
func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>pml</title>\n<p>"+html.EscapeString(text)+"</p>\n</html>\n")
}
