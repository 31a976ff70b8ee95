package gate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

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

	mu     sync.Mutex
	stamp  string
	tokens map[string]string // by value: also those that were replaced
	r      *env.Redactor
}

func newRedaction(declared map[string]string, client *oauth.Client, dir string) *redaction {
	return &redaction{declared: declared, oauth: client, dir: dir, r: env.NewRedactor(declared), tokens: map[string]string{}}
}

// current is the redactor with the tokens of this moment.
func (r *redaction) current() *env.Redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oauth == nil {
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

// String takes secrets out of a text.
func (r *redaction) String(text string) string { return r.current().String(text) }

// JSON takes secrets out of a JSON value.
func (r *redaction) JSON(raw json.RawMessage) json.RawMessage { return r.current().JSON(raw) }

// Tool takes secrets out of a tool's definition. Its name, by which it is called,
// stays: see Names.
func (r *redaction) Tool(t core.Tool) core.Tool {
	now := r.current()
	t.Title, t.Description = now.String(t.Title), now.String(t.Description)
	t.InputSchema, t.OutputSchema = now.JSON(t.InputSchema), now.JSON(t.OutputSchema)
	return t
}

// Names reports whether a name gives a secret away.
func (r *redaction) Names(name string) bool { return r.String(name) != name }

// folderStamp tells the state of a folder's files.
func folderStamp(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "-"
	}
	var b strings.Builder
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", e.Name(), fi.ModTime().UnixNano(), fi.Size())
		}
	}
	return b.String()
}
