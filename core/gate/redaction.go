package gate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/oauth"
)

// redaction takes secrets out of what is shown: the values of declared keys as
// they were read, and the tokens of OAuth, which come and go meanwhile.
type redaction struct {
	declared map[string]string
	oauth    *oauth.Client // nil: there are no tokens
	dir      string        // where tokens are kept
	clock    core.Clock

	mu     sync.Mutex
	listed time.Time // when the folder had changed whose files were last looked at; zero: look again
	stamp  string
	tokens map[string]string // by value: also those that were replaced
	r      *env.Redactor
}

func newRedaction(declared map[string]string, client *oauth.Client, dir string, clock core.Clock) *redaction {
	return &redaction{declared: declared, oauth: client, dir: dir, clock: clock, r: env.NewRedactor(declared), tokens: map[string]string{}}
}

// current is the redactor with the tokens of this moment.
func (r *redaction) current() *env.Redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oauth == nil {
		return r.r
	}
	if r.unchanged() {
		return r.r
	}
	stamp := folderStamp(r.dir)
	if stamp == r.stamp {
		return r.r
	}
	r.stamp = stamp
	for name, value := range r.oauth.Secrets() {
		r.tokens[value] = name
	}
	all := make(map[string]string, len(r.declared)+len(r.tokens))
	for value, name := range r.tokens {
		for all[name] != "" {
			name += "'"
		}
		all[name] = value
	}
	for name, value := range r.declared {
		for all[name] != "" && all[name] != value {
			name += "'"
		}
		all[name] = value
	}
	r.r = env.NewRedactor(all)
	return r.r
}

// settled is how old a folder's time of change must be before it tells one state
// from the next: file systems count in ticks.
const settled = 2 * time.Second

// unchanged reports whether the folder of tokens is as it was when its files were
// looked at: they are replaced as a whole, never written into.
func (r *redaction) unchanged() bool {
	info, err := os.Stat(r.dir)
	if err != nil {
		r.listed = time.Time{}
		return r.stamp == noFolder
	}
	if !r.listed.IsZero() && r.listed.Equal(info.ModTime()) {
		return true
	}
	r.listed = time.Time{}
	if r.clock.Now().Sub(info.ModTime()) > settled {
		r.listed = info.ModTime()
	}
	return false
}

// String takes secrets out of a text.
func (r *redaction) String(text string) string { return r.current().String(text) }

// JSON takes secrets out of a JSON value.
func (r *redaction) JSON(raw json.RawMessage) json.RawMessage { return r.current().JSON(raw) }

// Tool takes secrets out of a tool's definition. Its name, by which it is called,
// stays: see Names.
func (r *redaction) Tool(t core.Tool) core.Tool {
	now := r.current()
	t.Title, t.Description = now.String(t.Title), now.String(t.Description)
	t.InputSchema, t.OutputSchema, t.Rest = now.JSON(t.InputSchema), now.JSON(t.OutputSchema), now.JSON(t.Rest)
	return t
}

// Names reports whether a name gives a secret away.
func (r *redaction) Names(name string) bool { return r.String(name) != name }

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
