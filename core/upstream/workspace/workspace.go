// Package workspace is the built-in server "workspace": it reads, lists,
// searches and changes files inside a workspace folder, and nothing outside.
//
// Two fences hold it. The operating system's (os.Root): no path, symbolic
// link or race leads out of the folder. And one of names: files named .env*
// are never read, also not under another name that a hard link gives them
// within the workspace (not on Windows), and .pml.json, pml.lock, .pml, .git and
// .env* are never written, in any folder. What hosts and tools execute
// (Executed) is written only under its own name, so that it can be asked about.
// Names are compared as the most forgiving file systems do, and after symbolic
// links were resolved; from then on each folder is opened from the one before
// it and no link is followed, so that a link swapped in during a call gets
// nobody anywhere.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/casys-ai/pml/core"
)

// Server is the built-in server. The folder comes with each call. The zero
// value is ready; it must not be copied.
type Server struct {
	// writing makes a change that reads first (an edit) one step among all
	// calls of this process.
	writing sync.Mutex
	temps   atomic.Int64 // numbers the temporary files
}

// New returns the server.
func New() *Server { return &Server{} }

// call is one call: its context and its open folder.
type call struct {
	ctx    context.Context
	root   *os.Root
	server *Server
	// at is the folder that was opened last, which is at atPath.
	at     *os.Root
	atPath string
	// secrets are the .env files of the workspace that have further names.
	secrets      []fs.FileInfo
	secretsKnown bool
}

// handlers are the tools' functions, by name.
var handlers = map[string]func(*call, json.RawMessage) (any, error){
	"read_file":      typed((*call).readFile),
	"list_directory": typed((*call).listDirectory),
	"search":         typed((*call).search),
	"find":           typed((*call).find),
	"stat":           typed((*call).stat),
	"write_file":     typed((*call).writeFile),
	"edit_file":      typed((*call).editFile),
	"move_file":      typed((*call).moveFile),
	"delete_file":    typed((*call).deleteFile),
}

// typed decodes a tool's arguments and refuses members that it does not know.
func typed[A any](f func(*call, A) (any, error)) func(*call, json.RawMessage) (any, error) {
	return func(c *call, raw json.RawMessage) (any, error) {
		var args A
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&args); err != nil {
			return nil, core.Errorf(core.CodeInvalidArguments, "the arguments are not what this tool takes: %w", err)
		}
		return f(c, args)
	}
}

// Call runs a tool in the workspace folder dir. Errors are core.CodeToolFailed
// with words for a person, core.CodeInvalidArguments or core.CodeNoSuchTool;
// when ctx ends, its own error.
func (s *Server) Call(ctx context.Context, dir, tool string, args json.RawMessage) (json.RawMessage, error) {
	f, ok := handlers[tool]
	if !ok {
		return nil, core.Errorf(core.CodeNoSuchTool, "the workspace server has no tool %q%s", tool, core.Suggest(tool, names()))
	}
	if dir == "" {
		return nil, core.Errorf(core.CodeToolFailed, "there is no workspace folder")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, core.Errorf(core.CodeToolFailed, "the workspace folder cannot be opened: %w", err)
	}
	defer func() { _ = root.Close() }()
	c := &call{ctx: ctx, root: root, server: s}
	defer c.close()
	value, err := f(c, args)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, core.Errorf(core.CodeInternal, "cannot encode the result: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func names() []string {
	var all []string
	for _, t := range definitions {
		all = append(all, t.name)
	}
	return all
}

// failed is an error about a path: what was tried, and why it did not work.
func failed(doing, path string, err error) error {
	why := err.Error()
	var pe *fs.PathError
	switch {
	case errors.Is(err, errSwapped):
		why = "one of its folders was replaced by a link at this moment"
	case errors.Is(err, fs.ErrNotExist):
		why = "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		why = "the system denies access to it"
	case errors.As(err, &pe):
		why = pe.Err.Error()
	}
	return refused("cannot %s %q: %s", doing, path, why)
}

// errSwapped is a folder in whose place a link stands by now.
var errSwapped = errors.New("a link stands in the place of a folder")

func refused(format string, args ...any) error {
	return core.Errorf(core.CodeToolFailed, format, args...)
}
