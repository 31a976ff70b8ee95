package gate

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/upstream"
)

// start is how a server's process is started, and what was checked for it.
type start struct {
	command string
	args    []string
	guard   *guard
}

// into completes a launch. Its digest covers what runs and not only what is
// configured: another version of a package is another process.
func (st start) into(l *upstream.Launch) error {
	l.Command, l.Args, l.Verify = st.command, st.args, st.guard.check
	digest, err := core.DigestOf([]any{l.Digest, st.command, st.args, st.guard.tree, st.guard.digest})
	l.Digest = digest
	return err
}

// command finds out what to execute: an installed package, or the command as
// it stands. It returns a question instead when somebody must decide first.
func (s *server) command(ctx context.Context, resolved env.Resolved, environ []string) (start, *engine.Ask, error) {
	in := s.host.o.Installer
	spec, err := s.recognize(resolved)
	if err != nil {
		return start{}, nil, err
	}
	if spec.Kind != install.KindNPM {
		return s.program(spec, resolved, environ)
	}
	pinned := s.pinned(spec)
	if pinned != nil {
		installed, ok, err := s.approvedTree(spec, pinned.Digest)
		if err != nil {
			return start{}, nil, err
		}
		if ok {
			return s.installed(installed, spec, resolved, environ)
		}
	}
	want, err := in.Resolve(ctx, spec, pinned)
	if err != nil {
		return start{}, nil, err
	}
	installed, ok, err := s.approvedTree(spec, want.Digest)
	if ok && pinned == nil { // somebody removed the entry; what runs is pinned
		err = s.updateLock(func(e *install.LockEntry) { *e = pinnedEntry(*e, want, spec) })
	}
	if err != nil {
		return start{}, nil, err
	}
	if ok {
		return s.installed(installed, spec, resolved, environ)
	}
	ask := s.dependencyAsk(spec, want)
	return start{}, &ask, nil
}

// approvedTree returns the installed tree of a digest if exactly that was
// approved for this server: with its install scripts, or without.
func (s *server) approvedTree(spec install.Spec, digest string) (install.Installed, bool, error) {
	in := s.host.o.Installer
	scripts, ok := in.PackageApproved(s.approvalKey(), digest)
	if !ok {
		return install.Installed{}, false, nil
	}
	return in.Installed(spec, digest, scripts)
}

// program checks a command that is not installed: its line, and the files that
// it runs.
func (s *server) program(spec install.Spec, resolved env.Resolved, environ []string) (start, *engine.Ask, error) {
	g, ask, err := s.guard(spec, resolved, environ)
	if err != nil || ask != nil {
		return start{}, ask, err
	}
	st := start{command: resolved.Command, args: resolved.Args, guard: g}
	if g.located.Program != "" {
		st.command = g.located.Program // not whatever its name means by then
	}
	return st, nil, s.recordCommand(spec, resolved, g.digest)
}

// installed checks the command line and the tree of an installed package before
// it is started.
func (s *server) installed(pkg install.Installed, spec install.Spec, resolved env.Resolved, environ []string) (start, *engine.Ask, error) {
	in := s.host.o.Installer
	g, ask, err := s.guard(spec, resolved, environ)
	if err != nil || ask != nil {
		return start{}, ask, err
	}
	if err := in.Use(pkg, s.user()); err != nil { // before it is looked at: from here on it stays
		return start{}, nil, err
	}
	g.pkg, g.tree = pkg, pkg.TreeHash
	change, err := in.Verify(pkg)
	if err != nil {
		return start{}, nil, err
	}
	if change != nil {
		if !in.Approved(approvedTree, s.approvalKey(), change.NewHash) {
			ask := s.treeAsk(pkg, *change)
			return start{}, &ask, nil
		}
		g.tree = change.NewHash
	}
	g.at = s.host.o.Clock.Now()
	if err := s.recordCommand(spec, resolved, g.digest); err != nil {
		return start{}, nil, err
	}
	command, args, err := in.Launch(pkg, spec)
	return start{command: command, args: args, guard: g}, nil, err
}

// guard finds the files of a command and asks when its line or one of them is
// not what ran before.
func (s *server) guard(spec install.Spec, resolved env.Resolved, environ []string) (*guard, *engine.Ask, error) {
	in := s.host.o.Installer
	g := &guard{
		name: s.name, in: in, clock: s.host.o.Clock,
		spec: spec, place: install.Place{Dir: resolved.Dir, Workspace: s.host.o.Workspace.Dir, Env: environ},
	}
	var err error
	if g.located, err = in.Locate(spec, g.place); err == nil {
		g.digest, err = in.HashFiles(g.located.Files)
	}
	if ask := s.commandChanged(spec, resolved); ask != nil {
		if err == nil && s.recordedCommand() != spec.CommandDigest { // else they are compared with what is recorded
			s.withFiles(ask, g.located.Files, g.digest)
		}
		return nil, ask, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return g, s.fileChanged(g.located.Files, g.digest), nil
}

// user names this server to those who count the users of installed trees.
func (s *server) user() string { return s.lockPath() + "#" + s.name }

// commandChanged asks when the command line of a server, or its address, is not
// the one of before; the first one was trusted with the workspace, except for
// what .env fills, which nobody was shown.
func (s *server) commandChanged(spec install.Spec, resolved env.Resolved) *engine.Ask {
	old := s.recordedCommand()
	if old == spec.CommandDigest {
		old = "" // pinned, and maybe by somebody else
	}
	if old == "" && len(resolved.FromDotEnv) == 0 || s.host.o.Installer.Approved(approvedCommand, s.approvalKey(), spec.CommandDigest) {
		return nil
	}
	description, changed := s.lineChange(resolved, old, s.host.knownLine(old))
	ask := s.integrityAsk(s.name, description, approvedCommand, old, spec.CommandDigest, changed)
	return &ask
}

// line is a command line for a person to read.
func (s *server) line(resolved env.Resolved) string {
	return core.Visible(s.set.redact.String(s.lineOf(resolved)), 400, false)
}

// withFiles binds a question about a command to the files that it runs: they are
// accepted with it, as they are now and not as they will be by then.
func (s *server) withFiles(ask *engine.Ask, files []install.File, digest string) {
	context, ok := ask.Context.(map[string]any)
	if digest == "" || !ok {
		return
	}
	bound, err := core.DigestOf([]string{ask.Digest, digest})
	if err != nil {
		bound = digest // nothing else agrees to it
	}
	ask.Digest = bound
	lines, _ := context["changed"].([]string)
	context["file_hash"], context["changed"] = digest, append(lines, s.fileLines("runs", files)...)
}

// fileLines name the files of a command with their hashes.
func (s *server) fileLines(what string, files []install.File) []string {
	var lines []string
	for _, f := range files {
		line := what + ": " + f.Path
		if hash, err := s.host.o.Installer.HashFile(f.Path); err == nil && len(files) > 1 {
			line += " " + hash
		}
		lines = append(lines, line)
	}
	return s.bounded(lines)
}

// fileChanged asks when a program or script of a server is not the one that
// was recorded; the first one was trusted with the workspace.
func (s *server) fileChanged(files []install.File, digest string) *engine.Ask {
	old := s.recordedFile()
	// A command that ran without any file of its own must not find one unasked.
	first := old == "" && s.recordedCommand() == ""
	if first || old == digest || digest == "" || s.host.o.Installer.Approved(approvedFile, s.approvalKey(), digest) {
		return nil
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	description, lines := "The file that the server "+s.name+" runs has changed: ", s.fileLines("changed", files)
	if len(files) > 1 {
		description, lines = "Of the files that the server "+s.name+" runs one or more have changed: ", s.fileLines("now", files)
	}
	shown := core.Visible(s.set.redact.String(strings.Join(paths, ", ")), 400, false)
	ask := s.integrityAsk(s.name, description+shown, approvedFile, old, digest, lines)
	return &ask
}

// recordCommand remembers the command and the file that a server runs with. What
// cannot be recorded is an error: a change of it could not be noticed. What
// pml.lock pins already stays: others may have another file of that name.
func (s *server) recordCommand(spec install.Spec, resolved env.Resolved, file string) error {
	in := s.host.o.Installer
	var news []install.Approval
	for _, a := range []install.Approval{{Kind: approvedCommand, Key: s.approvalKey(), Digest: spec.CommandDigest}, {Kind: approvedFile, Key: s.approvalKey(), Digest: file}} {
		if a.Digest != "" && !in.Approved(a.Kind, a.Key, a.Digest) {
			news = append(news, a)
		}
	}
	if len(news) > 0 {
		if err := in.ApproveAll(news); err != nil {
			return err
		}
	}
	s.host.keepLine(spec.CommandDigest, s.line(resolved))
	if e := s.locked(); e.CommandDigest != "" && (e.FileDigest != "" || file == "") {
		return nil
	}
	other := false
	err := s.updateLock(func(e *install.LockEntry) {
		if e.CommandDigest == "" {
			e.CommandDigest = spec.CommandDigest
		}
		if e.FileDigest == "" {
			e.FileDigest = file
		}
		other = e.CommandDigest != spec.CommandDigest && s.locked().CommandDigest == "" ||
			e.FileDigest != file && s.locked().FileDigest == ""
	})
	if err == nil && other {
		err = core.Errorf(core.CodeIntegrityFailed, "another process has just recorded another command or file for the server %s in %s; try again", s.name, s.lockPath())
	}
	return err
}

// The lines of commands are kept by their digest, so that a change can be shown
// with what was there before. They serve for nothing else: a line that cannot
// be kept or read is left out.
func (h *Host) linePath(digest string) string {
	return filepath.Join(h.o.Home.Dir, "commands", strings.TrimPrefix(digest, "sha256:")+".txt")
}

const maxLine = 4000 // bytes of a line that is kept

func (h *Host) knownLine(digest string) string {
	raw, err := os.ReadFile(h.linePath(digest))
	if err != nil || len(raw) > maxLine || !strings.HasPrefix(digest, "sha256:") {
		return ""
	}
	return core.Visible(string(raw), 400, false)
}

func (h *Host) keepLine(digest, line string) {
	path := h.linePath(digest)
	if _, err := os.Stat(path); err == nil || len(line) > maxLine {
		return
	}
	if err := atomicfile.Write(path, []byte(line), 0o600); err != nil {
		h.o.Logger.Warn("cannot keep the text of a command", "error", err)
	}
}
