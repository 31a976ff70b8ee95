package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	pages "github.com/casys-ai/pml/core/page"
)

func (b *web) signInPage(w http.ResponseWriter, r *http.Request) {
	b.show(w, http.StatusOK, pages.SignIn(nextOf(r.URL.Query().Get("next")), ""))
}

// signIn begins a session of an API key. Keys are long and random, so that there is no
// use in trying; those who do are slowed down nevertheless.
func (b *web) signIn(w http.ResponseWriter, r *http.Request) {
	next := nextOf(r.PostForm.Get("next"))
	if !b.visits(w, r) {
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("key"))
	owner, ok := "", false
	var err error
	if b.s.o.Keys != nil {
		owner, ok, err = b.s.o.Keys.Owner(token)
	}
	if err != nil {
		b.failed(w, r, err)
		return
	}
	if !ok {
		b.s.log.WarnContext(r.Context(), "a sign-in to the pages was refused", "remote", r.RemoteAddr)
		b.denied(r, "key", "this server does not know the key")
		b.show(w, http.StatusUnauthorized, pages.SignIn(next, "this server does not know that key; it may have been removed"))
		return
	}
	cookie, s, err := b.s.o.Visitors.signIn(r.Context(), owner, hashOf(token))
	if err != nil {
		b.failed(w, r, err)
		return
	}
	if err := b.visited(r.Context(), s, "sign-in", "signed in to the pages with the key "+owner); err != nil {
		b.failed(w, r, errors.Join(err, b.s.o.Visitors.signOut(context.WithoutCancel(r.Context()), s.Hash)))
		return
	}
	b.s.log.InfoContext(r.Context(), "somebody has signed in to the pages", "key", owner, "remote", r.RemoteAddr)
	b.enter(w, r, cookie, s, next)
}

// pairPage asks before a code is used: whoever looks at a link, a preview for one, must
// not use it up.
func (b *web) pairPage(w http.ResponseWriter, r *http.Request) {
	if !b.visits(w, r) {
		return
	}
	code := r.URL.Query().Get("code")
	name, ok, err := b.s.o.Visitors.pairingOf(code)
	switch {
	case err != nil:
		b.failed(w, r, err)
	case !ok:
		b.message(w, r, http.StatusGone, "This pairing is not good any more", "it was used, or is too old: begin another one on the machine, with pml pair NAME")
	default:
		b.show(w, http.StatusOK, pages.Pair(code, name))
	}
}

func (b *web) pair(w http.ResponseWriter, r *http.Request) {
	if !b.visits(w, r) {
		return
	}
	cookie, s, err := b.s.o.Visitors.redeem(r.Context(), r.PostForm.Get("code"))
	if err != nil {
		b.s.log.WarnContext(r.Context(), "a pairing was refused", "remote", r.RemoteAddr)
		b.denied(r, "code", core.AsError(err).Message)
		b.failed(w, r, err)
		return
	}
	if err := b.audited(r, s); err != nil {
		b.failed(w, r, err)
		return
	}
	b.s.log.InfoContext(r.Context(), "a device was paired", "device", s.Device, "remote", r.RemoteAddr)
	b.enter(w, r, cookie, s, "/")
}

// audited puts a pairing into the audit log. One that cannot be there is none.
func (b *web) audited(r *http.Request, s session) error {
	half, err := b.s.o.Half(b.scopeOf(s))
	if keeper, ok := half.(PairKeeper); ok && err == nil {
		err = keeper.Paired(r.Context(), s.Device)
	}
	if err != nil {
		err = errors.Join(err, b.s.o.Visitors.signOut(context.WithoutCancel(r.Context()), s.Hash))
	}
	return err
}

// visits slows down all together who are not signed in.
func (b *web) visits(w http.ResponseWriter, r *http.Request) bool {
	wait := b.s.limiter.wait("pages, not signed in", b.s.o.Clock.Now())
	if wait > 0 {
		w.Header().Set("Retry-After", retryAfter(wait).Get("Retry-After"))
		b.denied(r, "often", "too many requests of browsers that are not signed in")
		b.message(w, r, http.StatusTooManyRequests, "Too many requests", "wait a moment, and try again")
	}
	return wait <= 0
}

// enter gives a browser its cookie. No script reads it, and no other page makes a browser
// send it.
func (b *web) enter(w http.ResponseWriter, r *http.Request, token string, s session, next string) {
	b.leave(r)
	secure := r.TLS != nil || strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https://")
	http.SetCookie(w, &http.Cookie{
		Name: cookieOf(secure), Value: token, Path: "/", MaxAge: int(s.Until.Sub(s.At) / time.Second),
		Secure: secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// leave ends the session that a browser had before, of a key: a device stays one.
func (b *web) leave(r *http.Request) {
	if s, ok, err := b.sessionOf(r); err == nil && ok && s.Device == "" {
		if err := b.s.o.Visitors.signOut(r.Context(), s.Hash); err != nil {
			b.s.log.WarnContext(r.Context(), "an earlier session was not ended", "error", core.AsError(err))
		}
	}
}

func (b *web) signOut(w http.ResponseWriter, r *http.Request, v visitor) {
	if err := b.s.o.Visitors.signOut(r.Context(), v.session.Hash); err != nil {
		b.failed(w, r, err)
		return
	}
	if v.session.Device != "" {
		if err := b.visited(r.Context(), v.session, "", "forgot the device "+v.session.Device+", which has signed out"); err != nil {
			b.s.log.WarnContext(r.Context(), "a device that has signed out is not in the audit log yet", "error", core.AsError(err))
		}
	}
	for _, secure := range []bool{true, false} {
		http.SetCookie(w, &http.Cookie{Name: cookieOf(secure), Path: "/", MaxAge: -1, Secure: secure, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
