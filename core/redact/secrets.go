package redact

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
)

// Options are what Secrets are made of.
type Options struct {
	// Values are those of keys and of .env by name, as they were read.
	Values map[string]string
	// Keys are those of them that no name of a tool may hold.
	Keys map[string]string
	// Tokens returns the tokens of OAuth by name, which come and go in files of the
	// folder TokensDir; nil where there are none.
	Tokens    func() map[string]string
	TokensDir string
	Clock     core.Clock
}

// Secrets are the values that must not be shown of a workspace: those of keys and
// of .env as they were read, and the tokens of OAuth of this moment. They are safe
// for concurrent use.
type Secrets struct {
	o     Options
	names *Redactor // of what no name of a tool may hold

	mu     sync.Mutex
	listed time.Time // when the folder had changed whose files were last looked at; zero: look again
	stamp  string
	tokens map[string]string // by value: also those that were replaced
	r      *Redactor
}

// NewSecrets returns Secrets. Tokens are looked up when they are needed first.
func NewSecrets(o Options) *Secrets {
	return &Secrets{o: o, names: New(o.Keys), r: New(o.Values), tokens: map[string]string{}}
}

// current is the redactor with the tokens of this moment.
func (r *Secrets) current() *Redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Tokens == nil {
		return r.r
	}
	if r.unchanged() {
		return r.r
	}
	stamp := folderStamp(r.o.TokensDir)
	if stamp == r.stamp {
		return r.r
	}
	r.stamp = stamp
	for name, value := range r.o.Tokens() {
		r.tokens[value] = name
	}
	all := make(map[string]string, len(r.o.Values)+len(r.tokens))
	for value, name := range r.tokens {
		for all[name] != "" {
			name += "'"
		}
		all[name] = value
	}
	for name, value := range r.o.Values {
		for all[name] != "" && all[name] != value {
			name += "'"
		}
		all[name] = value
	}
	r.r = New(all)
	return r.r
}

// settled is how old a folder's time of change must be before it tells one state
// from the next: file systems count in ticks.
const settled = 2 * time.Second

// unchanged reports whether the folder of tokens is as it was when its files were
// looked at: they are replaced as a whole, never written into.
func (r *Secrets) unchanged() bool {
	info, err := os.Stat(r.o.TokensDir)
	if err != nil {
		r.listed = time.Time{}
		return r.stamp == noFolder
	}
	if !r.listed.IsZero() && r.listed.Equal(info.ModTime()) {
		return true
	}
	r.listed = time.Time{}
	if r.o.Clock.Now().Sub(info.ModTime()) > settled {
		r.listed = info.ModTime()
	}
	return false
}

// String takes secrets out of a text.
func (r *Secrets) String(text string) string { return r.current().String(text) }

// Open is Redactor.Open with the secrets of this moment.
func (r *Secrets) Open(text string) int { return r.current().Open(text) }

// JSON takes secrets out of a JSON value.
func (r *Secrets) JSON(raw json.RawMessage) json.RawMessage { return r.current().JSON(raw) }

// Mark returns the mark of a value that any of some texts holds; else it is empty.
func (r *Secrets) Mark(texts ...string) string {
	now := r.current()
	for _, text := range texts {
		if mark := now.Mark(text); mark != "" {
			return mark
		}
	}
	return ""
}

// Tool takes secrets out of a tool's definition. Its name, by which it is called,
// stays: see Names.
func (r *Secrets) Tool(t core.Tool) core.Tool {
	now := r.current()
	t.Title, t.Description = now.String(t.Title), now.String(t.Description)
	t.InputSchema, t.OutputSchema, t.Rest = now.JSON(t.InputSchema), now.JSON(t.OutputSchema), now.JSON(t.Rest)
	return t
}

// Names reports whether a name gives a key or a token away. A word of .env that
// is neither, such as LOG_FORMAT=structured, takes no tool from anybody.
func (r *Secrets) Names(name string) bool {
	if r.names.String(name) != name {
		return true
	}
	if r.o.Tokens == nil || r.String(name) == name {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for token := range r.tokens {
		if strings.Contains(name, token) {
			return true
		}
	}
	return false
}

// noFolder is the state of a folder that cannot be read.
const noFolder = "-"

// folderStamp tells the state of a folder's files.
func folderStamp(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return noFolder
	}
	var b strings.Builder
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", e.Name(), fi.ModTime().UnixNano(), fi.Size())
		}
	}
	return b.String()
}
