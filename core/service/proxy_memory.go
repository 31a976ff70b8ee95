package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/gate"
)

// memoryVersion is that of the files in which definitions are remembered. Files
// of another one are as good as none.
const memoryVersion = 1

// The bounds of what is remembered.
const (
	maxMemories    = 256 // files; the oldest go first
	maxMemoryBytes = 32 << 20
)

// remembered is what a server had when it was last reached, values of keys left
// out: so that its tools can be listed before it runs.
type remembered struct {
	Version      int                `json:"version"`
	Tools        []gate.ReachedTool `json:"tools"`
	Capabilities json.RawMessage    `json:"capabilities,omitempty"`
}

// exposed is what is offered of it.
func (r remembered) exposed(e *gate.Exposure, name string) api.Exposed {
	out := api.Exposed{Name: name, Search: e.Searched(), Known: true}
	var has struct{ Resources, Prompts, Completions, Logging *struct{} }
	if err := json.Unmarshal(r.Capabilities, &has); err == nil {
		out.Resources = has.Resources != nil && e.Reads(name, gate.ReadsResources)
		out.Prompts = has.Prompts != nil && e.Reads(name, gate.GetsPrompts)
		out.Completions = has.Completions != nil && (out.Resources || out.Prompts)
		out.Logging = has.Logging != nil
	}
	for _, t := range r.Tools {
		if id := name + ":" + t.Name; e.Offers(id) {
			out.Tools = append(out.Tools, api.OfferedTool{Name: t.Name, Tool: id, Definition: t.Definition})
		}
	}
	return out
}

// memoryOf is the file that remembers a server for a client: what it was
// started from and what the client has declared make another one.
func (c *Service) memoryOf(e *gate.Exposure, name string, peer *api.Peer) (string, error) {
	key, err := e.Key(name)
	if err != nil {
		return "", err
	}
	caps := json.RawMessage("{}")
	if peer != nil && len(bytes.TrimSpace(peer.Capabilities)) > 0 && json.Valid(peer.Capabilities) {
		caps = peer.Capabilities
	}
	of := []any{key, caps}
	if peer != nil && !peer.Stateless {
		of = append(of, "sessions")
	}
	digest, err := core.DigestOf(of)
	if err != nil {
		return "", err
	}
	return filepath.Join(c.o.Home.Dir, "offered", strings.TrimPrefix(digest, "sha256:")+".json"), nil
}

// recall reads what is remembered, once. What cannot be read is not known.
func (c *Service) recall(file string) (remembered, bool) {
	t := c.through
	t.mu.Lock()
	r, ok := t.known[file]
	t.mu.Unlock()
	if ok {
		return r, true
	}
	raw, err := readBounded(file)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.o.Logger.Debug("cannot read what is remembered of a server", "error", err)
		}
		return remembered{}, false
	}
	if r.Version != memoryVersion {
		return remembered{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[file] = r
	return r, true
}

func readBounded(file string) ([]byte, error) {
	fi, err := os.Stat(file)
	if err == nil && fi.Size() > maxMemoryBytes {
		err = core.Errorf(core.CodeStoreFailed, "%s is too long", file)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// remember keeps what a server has. That it cannot be written costs time later,
// nothing else.
func (c *Service) remember(file string, r remembered) {
	before, known := c.recall(file)
	t := c.through
	t.mu.Lock()
	t.known[file] = r
	t.mu.Unlock()
	raw, err := json.Marshal(r)
	if err != nil {
		c.o.Logger.Debug("cannot encode what a server has", "error", err)
		return
	}
	if old, err := json.Marshal(before); known && err == nil && bytes.Equal(old, raw) || len(raw) > maxMemoryBytes {
		return
	}
	if err := atomicfile.Write(file, raw, 0o600); err != nil {
		c.o.Logger.Debug("cannot remember what a server has", "error", err)
		return
	}
	forgetOldest(filepath.Dir(file))
}

// forgetOldest keeps the number of files bounded: each value of a key that was
// ever used has left one.
func forgetOldest(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxMemories {
		return
	}
	type aged struct {
		name string
		at   int64
	}
	var list []aged
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			list = append(list, aged{filepath.Join(dir, e.Name()), fi.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(list, func(a, b aged) int { return cmp.Compare(a.at, b.at) })
	for _, old := range list[:max(0, len(list)-maxMemories)] {
		_ = os.Remove(old.name) // the next time it is tried again
	}
}
