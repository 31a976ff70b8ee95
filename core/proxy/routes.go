package proxy

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// The bounds of what is known of one server, for each kind of list.
const (
	maxTemplates = 2000
	maxRoutes    = 4 << 20 // bytes
	routeBytes   = 128     // of a route, less its key
)

// routes say which server has what: so that a request about it goes there.
type routes struct {
	mu        sync.Mutex
	resources map[string]string // by URI
	prompts   map[string]string // by name
	texts     map[string]string // of templates
	templates []template        // in the order in which they were learnt; never changed in place
	held      map[share]int     // bytes
	// full and named are set once all resources, and all prompts, were listed.
	full, named bool
}

// share is what one server takes of the routes.
type share struct{ field, server string }

// template stands for the URIs that have these texts in this order, the first
// at the beginning and the last at the end.
type template struct {
	server string
	parts  []string
}

func newRoutes() *routes {
	r := &routes{}
	r.forget()
	return r
}

func (r *routes) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resources, r.prompts, r.texts, r.held = map[string]string{}, map[string]string{}, map[string]string{}, map[share]int{}
	r.templates, r.full, r.named = nil, false, false
}

// learn notes which server has what. Of two that have the same the first counts.
// Where a server has had more than is kept, what it lists now counts; false is
// that this is too much already.
func (r *routes) learn(field, server string, items []json.RawMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := share{field, server}
	before := r.held[of]
	if r.add(of, items) {
		return true
	}
	if before == 0 {
		return false
	}
	r.drop(of)
	return r.add(of, items)
}

// add notes items until there is no room. mu is held.
func (r *routes) add(of share, items []json.RawMessage) bool {
	known := r.known(of.field)
	templates := 0
	if of.field == "resourceTemplates" {
		for _, t := range r.templates {
			if t.server == of.server {
				templates++
			}
		}
	}
	for _, item := range items {
		key := keyOf(of.field, item)
		if key == "" || known[key] != "" {
			continue
		}
		bytes := r.held[of] + len(key) + routeBytes
		if bytes > maxRoutes || templates >= maxTemplates {
			return false
		}
		r.held[of], known[key] = bytes, of.server
		if of.field == "resourceTemplates" {
			templates++
			r.templates = append(r.templates, template{of.server, partsOf(key)})
		}
	}
	return true
}

// known are the routes of a kind.
func (r *routes) known(field string) map[string]string {
	switch field {
	case "resources":
		return r.resources
	case "resourceTemplates":
		return r.texts
	}
	return r.prompts
}

// drop forgets what a server has of a kind, and what is nobody's: who lists it
// again makes it so again. mu is held.
func (r *routes) drop(of share) {
	known := r.known(of.field)
	for key, server := range known {
		if server == of.server || server == none {
			delete(known, key)
		}
	}
	if of.field == "resourceTemplates" {
		var left []template
		for _, t := range r.templates {
			if t.server != of.server {
				left = append(left, t)
			}
		}
		r.templates = left
	}
	delete(r.held, of)
}

// nobodys makes a prompt one that no server has.
func (r *routes) nobodys(prompt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prompts[prompt] = none
}

// none stands for no server, of a name that several have.
const none = "\x00"

// partsOf are the texts between the expressions of a template.
func partsOf(text string) []string {
	var parts []string
	for {
		open, end := strings.IndexByte(text, '{'), strings.IndexByte(text, '}')
		if open < 0 || end < open {
			return append(parts, text)
		}
		parts = append(parts, text[:open])
		text = text[end+1:]
	}
}

// matches reports whether a template stands for a URI. It takes one pass over
// the URI, whatever a server writes into its template.
func (t template) matches(uri string) bool {
	first, last := t.parts[0], t.parts[len(t.parts)-1]
	if len(t.parts) == 1 {
		return uri == first
	}
	rest, ok := strings.CutPrefix(uri, first)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, last); !ok {
		return false
	}
	for _, part := range t.parts[1 : len(t.parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// ofResource is the server that has a URI, or a template of this text.
func (r *routes) ofResource(uri string) string {
	r.mu.Lock()
	server, templates := r.resources[uri], r.templates
	if server == "" {
		server = r.texts[uri]
	}
	r.mu.Unlock()
	if server != "" {
		return server
	}
	if i := slices.IndexFunc(templates, func(t template) bool { return t.matches(uri) }); i >= 0 {
		return templates[i].server
	}
	return ""
}

func (r *routes) isFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full
}

func (r *routes) setFull(full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = full
}
