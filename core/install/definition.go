package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// maxDefinition bounds the bytes of a definition that is kept. A larger one is
// compared by its digest and has no readable difference.
const maxDefinition = 1 << 20

// Definitions keeps the definitions of tools on this machine.
type Definitions struct {
	dir   string
	clock core.Clock
	log   *slog.Logger
}

func (d *Definitions) path(digest string) string {
	return filepath.Join(d.dir, shortDigest(digest, 64)+".json")
}

// Keep keeps a tool's definition on this machine under its ToolDigest, so
// that a later change can be shown as a difference. One that is larger than a
// megabyte is not kept, which is no error.
func (d *Definitions) Keep(t core.Tool) error { return d.KeepAs(ToolDigest(t), t) }

// KeepAs is Keep for a definition that may hold secrets: shown is what is
// left of it without them, and digest that of the whole. What was kept of it
// with secrets is replaced.
func (d *Definitions) KeepAs(digest string, shown core.Tool) error {
	shown.Server = ""
	kept := keptTool{Tool: shown, Rest: shown.Rest}
	own := ToolDigest(shown)
	if own != digest {
		kept.Seal = tie(digest, own)
	}
	if old, ok := d.Known(digest); ok && (own == digest || ToolDigest(old) == own) {
		return nil
	}
	raw, err := json.Marshal(kept)
	if err != nil || len(raw) > maxDefinition {
		return nil // a schema that is no JSON, or too much of it
	}
	return writeFile(d.path(digest), raw)
}

// keptTool is a definition as it is kept. Its own digest is that of its file's
// name, unless something was taken out: then the seal ties the two together.
type keptTool struct {
	core.Tool
	Rest json.RawMessage `json:"rest,omitempty"`
	Seal string          `json:"seal,omitempty"`
}

func (k keptTool) stands(digest string) bool {
	own := ToolDigest(k.Tool)
	return own == digest || k.Seal != "" && k.Seal == tie(digest, own)
}

func tie(digest, own string) string {
	s, err := core.DigestOf([]string{digest, own})
	if err != nil {
		return "" // which stands for nothing
	}
	return s
}

// Known returns the definition that was kept under a digest, if this machine
// has seen it. It has no server: several may offer the same tool. A file that
// is not what was kept under the digest counts as not there.
func (d *Definitions) Known(digest string) (core.Tool, bool) {
	file := d.path(digest)
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxDefinition {
		return core.Tool{}, false
	}
	raw, err := os.ReadFile(file)
	var t keptTool
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	t.Tool.Rest = t.Rest
	if err == nil && !t.stands(digest) {
		err = errors.New("it does not have its digest")
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("cannot use the kept definition of a tool", "file", file, "error", err)
		}
		return core.Tool{}, false
	}
	if err := atomicfile.Touch(file, d.clock.Now()); err != nil {
		d.log.Debug("cannot note the use of a definition", "file", file, "error", err)
	}
	return t.Tool, true
}

// The bounds of a description of a change.
const (
	maxChangeLines = 60
	maxChangeRunes = 360 // and what Visible adds to a cut line
)

// DescribeChange says in readable lines how a tool's definition changed: its
// description word for word, annotations that flipped, parameters that were
// added, removed or changed, and what else it says. Lines begin with "+", "-" or " "; control
// characters are made visible; they are at most 60 of at most 400 characters. A
// zero old tool lists everything as new. Equal definitions give none.
func DescribeChange(old, now core.Tool) []string {
	d := &changeWriter{}
	d.hint("readOnlyHint", old.Annotations.ReadOnly, now.Annotations.ReadOnly)
	d.hint("destructiveHint", old.Annotations.Destructive, now.Annotations.Destructive)
	d.hint("idempotentHint", old.Annotations.Idempotent, now.Annotations.Idempotent)
	d.hint("openWorldHint", old.Annotations.OpenWorld, now.Annotations.OpenWorld)
	d.text("name", old.Name, now.Name)
	d.text("title", old.Title, now.Title)
	d.text("description", old.Description, now.Description)
	d.parameters(old.InputSchema, now.InputSchema)
	d.schema("output schema", old.OutputSchema, now.OutputSchema)
	d.schema("what else it says", old.Rest, now.Rest)
	if len(d.lines) > maxChangeLines {
		left := len(d.lines) - maxChangeLines + 1
		d.lines = append(d.lines[:maxChangeLines-1], "  … and "+plural(left, "more line", "more lines"))
	}
	return d.lines
}

// schemaOf is what is compared by name of the JSON schema of an object; rest is
// everything else that it says.
type schemaOf struct {
	properties map[string]json.RawMessage
	required   []string
	rest       map[string]json.RawMessage
}

// readSchema takes the schema of an object apart; ok is false for any other.
func readSchema(raw json.RawMessage) (s schemaOf, ok bool) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return s, true
	}
	if json.Unmarshal(raw, &s.rest) != nil {
		return s, false
	}
	if p, there := s.rest["properties"]; there && json.Unmarshal(p, &s.properties) != nil {
		return s, false
	}
	if r, there := s.rest["required"]; there && json.Unmarshal(r, &s.required) != nil {
		return s, false
	}
	delete(s.rest, "properties")
	delete(s.rest, "required")
	return s, true
}
