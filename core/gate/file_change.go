package gate

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/upstream/workspace"
)

// fileChange says what a call would do to a file of the workspace, nil for a call that
// writes none. The gate says so when it asks, not whoever shows the question: only here
// is it certain that the workspace is on this machine, the values of keys are known,
// and everybody is shown the same. Nothing that is read decides anything.
func (s *settings) fileChange(call engine.Call) *asked.File {
	server, tool, _ := core.SplitTool(call.Tool)
	if !s.writesFiles(server) && !ofHost(call) || !call.ArgsKnown {
		return nil
	}
	w, ok := asked.WrittenBy(call.Args)
	if !ok || server == Builtin && tool != "write_file" && tool != "edit_file" {
		return nil
	}
	unknown := func(why string) *asked.File {
		return &asked.File{Path: s.redact.String(w.Path), State: asked.FileUnknown, Why: core.Visible(s.redact.String(why), 300, false)}
	}
	if !filepath.IsAbs(w.Path) && !ofHost(call) && !s.worksHere(server) {
		return unknown("the path is relative, and the server may work in another folder than this workspace")
	}
	before, err := workspace.Peek(s.all.Workspace.Dir, w.Path)
	switch {
	case err != nil:
		return unknown(core.AsError(err).Message)
	case w.Content != nil && len(*w.Content) > maxCompared:
		return unknown("what is written is too long for a difference")
	case before == nil && w.Content == nil:
		return unknown("there is no such file")
	}
	old := ""
	if before != nil {
		old = *before
	}
	after, why := w.After(old)
	if why != "" {
		return unknown(why)
	}
	// Without the values of keys first: a value of several lines is none any more in
	// a difference.
	same := before != nil && old == after
	if before != nil {
		clean := s.redact.String(old)
		before = &clean
	}
	f := asked.Compare(s.redact.String(w.Path), before, s.redact.String(after))
	if f.State == asked.FileSame && !same {
		f.State, f.Why = asked.FileChanged, "it differs in nothing but the values of keys, which are not shown"
	}
	return &f
}

// maxCompared bounds a text that is compared with a file, in bytes.
const maxCompared = 1 << 20

// writesFiles reports whether what a server calls a path is one of this machine: it is
// the built-in server, or the reference server for files.
func (s *settings) writesFiles(server string) bool {
	_, ok := s.fileServer(server)
	return ok || server == Builtin
}

// worksHere reports whether a server takes a relative path to be in the workspace: the built-in
// server, or the reference server whose first folder is the workspace, which it tries first.
func (s *settings) worksHere(server string) bool {
	folders, ok := s.fileServer(server)
	if !ok || len(folders) == 0 {
		return server == Builtin
	}
	first, here := folders[0], s.all.Workspace.Dir
	if !filepath.IsAbs(first) {
		if s.granted.Servers[server].Cwd != "" { // it is started elsewhere
			return false
		}
		first = filepath.Join(here, first)
	}
	return filepath.Clean(first) == filepath.Clean(here)
}

// fileServer returns the folders that the reference server for files is started with; ok is
// false of every other server.
func (s *settings) fileServer(server string) (folders []string, ok bool) {
	e, ok := s.granted.Servers[server]
	if !ok || e.Command == "" {
		return nil, false
	}
	words := append([]string{e.Command}, e.Args...)
	at := slices.IndexFunc(words, func(word string) bool { return strings.Contains(word, "server-filesystem") })
	if at < 0 {
		return nil, false
	}
	return words[at+1:], true
}
