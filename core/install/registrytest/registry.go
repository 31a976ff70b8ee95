// Package registrytest is an npm registry on loopback for tests: packages made
// in memory that the real npm installs without any other network, and a
// registry that can hang, fail, cut its answers short or serve other bytes than
// it promised.
package registrytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Mode is how a registry answers.
type Mode int

// The modes. They hold for the requests that Break names.
const (
	Answers Mode = iota // as a registry does
	Hangs               // takes the request and never answers
	Fails               // status 500
	Cuts                // half of the body, then the connection ends
)

// Registry is an npm registry. It ends with its test. It is safe for concurrent
// use.
type Registry struct {
	URL string

	t      testing.TB
	server *httptest.Server
	closed chan struct{}
	down   sync.Once
	dir    string

	mu       sync.Mutex
	packages map[string]*published
	breaks   map[string]Mode
	requests []string
	asked    chan struct{} // closed and replaced with each request
}

// New starts a registry without packages.
func New(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{t: t, closed: make(chan struct{}), dir: t.TempDir(), packages: map[string]*published{}, breaks: map[string]Mode{}, asked: make(chan struct{})}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	r.URL = r.server.URL
	t.Cleanup(r.Down)
	return r
}

// Down ends the registry: from now on connections to it are refused.
func (r *Registry) Down() {
	r.down.Do(func() {
		close(r.closed)
		r.server.CloseClientConnections()
		r.server.Close()
	})
}

// Env returns an environment for npm: base (the caller's own, NAME=value)
// without any of npm's settings, with this registry, a cache of its own and no
// retries.
func (r *Registry) Env(base []string) []string {
	r.t.Helper()
	// npm refuses one file for both.
	user, global := filepath.Join(r.dir, "user-npmrc"), filepath.Join(r.dir, "global-npmrc")
	var env []string
	for _, line := range base {
		name, _, _ := strings.Cut(strings.ToLower(line), "=")
		if !strings.HasPrefix(name, "npm_") && !strings.HasSuffix(name, "_proxy") {
			env = append(env, line)
		}
	}
	return append(env,
		"npm_config_registry="+r.URL, "npm_config_cache="+r.Cache(), "npm_config_userconfig="+user, "npm_config_globalconfig="+global,
		"npm_config_fetch_retries=0", "npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false")
}

// Cache is the folder of npm's cache in Env.
func (r *Registry) Cache() string { return filepath.Join(r.dir, "cache") }

// Break sets how requests are answered whose path contains a text; an empty
// one means all. The longest text that matches counts.
func (r *Registry) Break(containing string, m Mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaks[containing] = m
}

// Requests returns how many requests came whose path contains a text.
func (r *Registry) Requests(containing string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.requests {
		if strings.Contains(p, containing) {
			n++
		}
	}
	return n
}

// Await returns when n requests have come whose path contains a text, or when
// the registry is down.
func (r *Registry) Await(containing string, n int) {
	for {
		r.mu.Lock()
		next := r.asked
		r.mu.Unlock()
		if r.Requests(containing) >= n {
			return
		}
		select {
		case <-next:
		case <-r.closed:
			return
		}
	}
}

// note records a request and returns how it is answered.
func (r *Registry) note(p string) Mode {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, p)
	close(r.asked)
	r.asked = make(chan struct{})
	mode, longest := Answers, -1
	for text, m := range r.breaks {
		if strings.Contains(p, text) && len(text) > longest {
			mode, longest = m, len(text)
		}
	}
	return mode
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	mode := r.note(req.URL.Path)
	if mode == Hangs {
		select {
		case <-r.closed:
		case <-req.Context().Done():
		}
		panic(http.ErrAbortHandler) // returning would be an answer
	}
	if mode == Fails {
		http.Error(w, `{"error":"it is broken"}`, http.StatusInternalServerError)
		return
	}
	body, kind, ok := r.find(req)
	if !ok {
		http.Error(w, `{"error":"Not found"}`, http.StatusNotFound)
		return
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Vary", "accept")
	w.Header().Set("ETag", tag)
	if mode == Answers && req.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if mode == Cuts {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // so that half of it is on its way
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

// find returns the document or archive that a request asks for.
func (r *Registry) find(req *http.Request) (body []byte, kind string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, file, archive := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/-/")
	p := r.packages[name]
	if p == nil {
		return nil, "", false
	}
	if archive {
		version := strings.TrimSuffix(strings.TrimPrefix(file, path.Base(name)+"-"), ".tgz")
		body, ok = p.archives[version]
		return body, "application/octet-stream", ok
	}
	abbreviated := strings.Contains(req.Header.Get("Accept"), "application/vnd.npm.install-v1+json")
	document := p.document(name, abbreviated)
	kind = "application/json"
	if abbreviated {
		kind = "application/vnd.npm.install-v1+json"
	}
	body, err := json.Marshal(document)
	if err != nil {
		r.t.Error(err)
	}
	return body, kind, err == nil
}
