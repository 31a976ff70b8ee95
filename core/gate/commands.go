package gate

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
	"github.com/casys-ai/pml/core/upstream"
)

// start is how a server's process is started, and what was checked for it.
type start struct {
	command string
	args    []string
	guard   *launch.Guard
}

// into completes a launch. Its digest covers what runs and not only what is
// configured: another version of a package is another process.
func (st start) into(l *upstream.Launch) error {
	l.Command, l.Args, l.Verify = st.command, st.args, st.guard.Check
	digest, err := st.guard.DigestWith(l.Digest, st.command, st.args)
	l.Digest = digest
	return err
}

// command finds out what to execute: an installed package, or the command as
// it stands. It returns a question instead when somebody must decide first.
func (s *server) command(ctx context.Context, resolved env.Resolved) (start, *engine.Ask, error) {
	in := s.host.o.Installer
	spec, err := s.recognize(resolved)
	if err != nil {
		return start{}, nil, err
	}
	if spec.Kind != launch.KindNPM {
		return s.program(spec, resolved)
	}
	pinned := s.pinned(spec)
	if pinned != nil {
		installed, ok, err := s.approvedTree(spec, pinned.Digest)
		if err != nil {
			return start{}, nil, err
		}
		if ok {
			return s.installed(installed, spec, resolved)
		}
	}
	ctx, cancel := s.set.resolving(ctx)
	defer cancel()
	want, err := in.Resolve(ctx, spec, pinned)
	if err != nil {
		return start{}, nil, unresolved(s, err)
	}
	installed, ok, err := s.approvedTree(spec, want.Digest)
	if ok && pinned == nil { // somebody removed the entry; what runs is pinned
		err = s.updateLock(func(e *install.LockEntry) { *e = pinnedEntry(*e, want, spec) })
	}
	if err != nil {
		return start{}, nil, err
	}
	if ok {
		return s.installed(installed, spec, resolved)
	}
	if failed := in.Failures.Last(want.Digest); failed != nil && failed.Final {
		return start{}, nil, s.cannotInstall(want, *failed)
	}
	ask := s.dependencyAsk(ctx, spec, want)
	return start{}, &ask, nil
}

// approvedTree returns the installed tree of a digest if exactly that was
// approved for this server: with its install scripts, or without.
func (s *server) approvedTree(spec launch.Spec, digest string) (install.Installed, bool, error) {
	in := s.host.o.Installer
	scripts, ok := in.Approvals.PackageApproved(s.approvalKey(), digest)
	if !ok {
		return install.Installed{}, false, nil
	}
	return in.Installed(spec, digest, scripts)
}

// program checks a command that is not installed: its line, and the files that
// it runs.
func (s *server) program(spec launch.Spec, resolved env.Resolved) (start, *engine.Ask, error) {
	g, ask, err := s.guard(spec, resolved)
	if err != nil || ask != nil {
		return start{}, ask, err
	}
	st := start{command: resolved.Command, args: resolved.Args, guard: g}
	if found := g.Found(); found.Program != "" {
		st.command = found.Program // not whatever its name means by then
	}
	return st, nil, s.recordCommand(spec, resolved, g.Digest())
}

// installed checks the command line and the tree of an installed package before
// it is started.
func (s *server) installed(pkg install.Installed, spec launch.Spec, resolved env.Resolved) (start, *engine.Ask, error) {
	in := s.host.o.Installer
	g, ask, err := s.guard(spec, resolved)
	if err != nil || ask != nil {
		return start{}, ask, err
	}
	if err := in.Use(pkg, s.user()); err != nil { // before it is looked at: from here on it stays
		return start{}, nil, err
	}
	change, err := in.Verify(pkg)
	if err != nil {
		return start{}, nil, err
	}
	accepted := pkg.TreeHash
	if change != nil {
		if !in.Approvals.Approved(approvedTree, s.approvalKey(), change.NewHash) {
			ask := s.treeAsk(pkg, *change)
			return start{}, &ask, nil
		}
		accepted = change.NewHash
	}
	g.Covers(pkg.Launched(), accepted, func() (string, error) {
		change, err := in.Verify(pkg)
		if err != nil || change == nil {
			return pkg.TreeHash, err
		}
		return change.NewHash, nil
	})
	if err := s.recordCommand(spec, resolved, g.Digest()); err != nil {
		return start{}, nil, err
	}
	command, args, err := in.Files.Program(pkg.Launched(), spec)
	return start{command: command, args: args, guard: g}, nil, err
}

// runs finds and hashes the files of a command.
func (s *server) runs(spec launch.Spec, resolved env.Resolved) (*launch.Guard, error) {
	return s.host.o.Installer.Files.Guard(s.name, spec, s.placeOf(resolved))
}

// placeOf is where the command of a server is run.
func (s *server) placeOf(r env.Resolved) launch.Place {
	return launch.Place{Dir: r.Dir, Workspace: s.host.o.Workspace.Dir, Env: env.ChildEnv(r.Env, s.host.o.Environ)}
}

// guard finds the files of a command and asks when its line or one of them is
// not what ran before.
func (s *server) guard(spec launch.Spec, resolved env.Resolved) (*launch.Guard, *engine.Ask, error) {
	g, err := s.runs(spec, resolved)
	if ask := s.commandChanged(spec, resolved); ask != nil {
		if err == nil && s.recordedCommand() != spec.CommandDigest { // else they are compared with what is recorded
			s.withFiles(ask, g.Found().Files, g.Digest())
		}
		return nil, ask, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return g, s.fileChanged(g.Found().Files, g.Digest()), nil
}

// user names this server to those who count the users of installed trees.
func (s *server) user() string { return s.lockPath() + "#" + s.name }

// commandChanged asks when the command line of a server, or its address, is not
// the one of before; the first one was trusted with the workspace, except for
// what .env fills, which nobody was shown, and for one that runs any code, which
// takes a decision of its own.
func (s *server) commandChanged(spec launch.Spec, resolved env.Resolved) *engine.Ask {
	old := s.recordedCommand()
	if old == spec.CommandDigest {
		old = "" // pinned, and maybe by somebody else
	}
	if old == "" && len(resolved.FromDotEnv) == 0 && spec.AnyCode == "" || s.host.o.Installer.Approvals.Approved(approvedCommand, s.approvalKey(), spec.CommandDigest) {
		return nil
	}
	description, changed := s.lineChange(spec, resolved, old, s.host.commands.known(old))
	if spec.Unpinned != "" {
		changed = append(changed, "not pinned: "+spec.Unpinned)
	}
	ask := s.integrityAsk(s.name, description, approvedCommand, old, spec.CommandDigest, changed)
	return &ask
}

// line is a command line for a person to read.
func (s *server) line(resolved env.Resolved) string {
	return core.Visible(s.set.redact.String(s.lineOf(resolved)), 400, false)
}

// withFiles binds a question about a command to the files that it runs: they are
// accepted with it, as they are now and not as they will be by then.
func (s *server) withFiles(ask *engine.Ask, files []launch.File, digest string) {
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
func (s *server) fileLines(what string, files []launch.File) []string {
	var lines []string
	for _, f := range files {
		line := what + ": " + f.Path
		if hash, err := s.host.o.Installer.Files.HashFile(f.Path); err == nil && len(files) > 1 {
			line += " " + hash
		}
		lines = append(lines, line)
	}
	return s.set.bounded(lines)
}

// fileChanged asks when a program or script of a server is not the one that
// was recorded; the first one was trusted with the workspace.
func (s *server) fileChanged(files []launch.File, digest string) *engine.Ask {
	old := s.recordedFile()
	// A command that ran without any file of its own must not find one unasked.
	first := old == "" && s.recordedCommand() == ""
	if first || old == digest || digest == "" || s.host.o.Installer.Approvals.Approved(approvedFile, s.approvalKey(), digest) {
		return nil
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	description, lines := "The file that the server "+s.name+" runs has changed: ", s.fileLines("changed", files)
	switch {
	case old == "":
		description, lines = "The server "+s.name+" runs a file that was not there, or could not be read, when its command was trusted: ", s.fileLines("new", files)
	case len(files) > 1:
		description, lines = "Of the files that the server "+s.name+" runs one or more have changed: ", s.fileLines("now", files)
	}
	shown := core.Visible(s.set.redact.String(strings.Join(paths, ", ")), 400, false)
	ask := s.integrityAsk(s.name, description+shown, approvedFile, old, digest, lines)
	return &ask
}

// recordCommand remembers the command and the file that a server runs with. What
// cannot be recorded is an error: a change of it could not be noticed. What
// pml.lock pins already stays: others may have another file of that name.
func (s *server) recordCommand(spec launch.Spec, resolved env.Resolved, file string) error {
	in := s.host.o.Installer
	var news []install.Approval
	for _, a := range []install.Approval{{Kind: approvedCommand, Key: s.approvalKey(), Digest: spec.CommandDigest}, {Kind: approvedFile, Key: s.approvalKey(), Digest: file}} {
		if a.Digest != "" && !in.Approvals.Approved(a.Kind, a.Key, a.Digest) {
			news = append(news, a)
		}
	}
	if len(news) > 0 {
		if err := in.Approvals.ApproveAll(news); err != nil {
			return err
		}
	}
	s.host.commands.keep(spec.CommandDigest, s.line(resolved))
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

// commandLines keeps the lines of commands by their digest, so that a change can be
// shown with what was there before. They serve for nothing else: a line that cannot
// be kept or read is left out.
type commandLines struct {
	dir string
	log *slog.Logger
}

func (c commandLines) path(digest string) string {
	return filepath.Join(c.dir, strings.TrimPrefix(digest, "sha256:")+".txt")
}

const maxLine = 4000 // bytes of a line that is kept

func (c commandLines) known(digest string) string {
	raw, err := os.ReadFile(c.path(digest))
	if err != nil || len(raw) > maxLine || !strings.HasPrefix(digest, "sha256:") {
		return ""
	}
	return core.Visible(string(raw), 400, false)
}

func (c commandLines) keep(digest, line string) {
	path := c.path(digest)
	if _, err := os.Stat(path); err == nil || len(line) > maxLine {
		return
	}
	if err := atomicfile.Write(path, []byte(line), 0o600); err != nil {
		c.log.Warn("cannot keep the text of a command", "error", err)
	}
}
