package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/diff"
	"github.com/casys-ai/pml/core/hosts"
	"github.com/casys-ai/pml/core/redact"
)

// Hosts are the programs of agents in which pml can register itself.
type Hosts struct{ base }

// HostChanges prepares to tell hosts of pml, or to take out what was added. It
// writes nothing; WriteHost writes one of them. A host whose file cannot be
// changed is in the answer with the reason. Without names those are left out
// that are not in use here, and those of other workspaces. Errors:
// core.CodeInvalidArguments for a name that is no host's.
func (hs *Hosts) HostChanges(_ context.Context, req api.HostRequest) ([]api.HostChange, error) {
	if req.ByHand {
		return hs.byHand()
	}
	targets, err := hs.hostTargets(req)
	if err != nil {
		return nil, err
	}
	done, err := hs.registrations()
	if err != nil {
		return nil, err
	}
	out := []api.HostChange{}
	for _, t := range targets {
		job := hs.hostJob(t, done.of(t), req.Undo)
		if !req.Undo || job.was != nil {
			out = append(out, job.HostChange)
		}
	}
	if len(req.Hosts) == 0 && !req.Undo {
		out = hs.covered(out)
	}
	return out, nil
}

// ConnectedHosts implements api.Hosts.
func (hs *Hosts) ConnectedHosts(context.Context) ([]api.ConnectedHost, error) {
	return hs.o.Machine.ConnectedHosts()
}

// hostTargets are the files that a request is about.
func (hs *Hosts) hostTargets(req api.HostRequest) ([]hosts.Target, error) {
	all := append(hs.place().Targets(), hs.place().HookTargets()...)
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Host
	}
	for _, name := range req.Hosts {
		if !slices.Contains(names, name) {
			return nil, core.Errorf(core.CodeInvalidArguments, "pml cannot be registered with %q; it knows %s%s",
				core.Visible(name, 60, false), strings.Join(names, ", "), core.Suggest(name, names)).WithNext("pml", "init", "--help")
		}
	}
	done, err := hs.registrations()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t hosts.Target) bool {
		was := done.of(t)
		switch {
		case len(req.Hosts) > 0:
			return !slices.Contains(req.Hosts, t.Host)
		case req.Undo:
			return was == nil || was.Workspace != hs.o.Workspace.Dir || req.Hooks && t.Hook == ""
		}
		return !t.Found || req.Hooks != (t.Hook != "")
	}), nil
}

// covered makes sure that pml is registered with Claude Code once, in the workspace or for every
// folder.
func (hs *Hosts) covered(list []api.HostChange) []api.HostChange {
	find := func(host string) *api.HostChange {
		i := slices.IndexFunc(list, func(h api.HostChange) bool { return h.Host == host })
		if i < 0 {
			return &api.HostChange{}
		}
		return &list[i]
	}
	here, everywhere := find("claude-code"), find("claude-code-user")
	switch {
	case here.State == api.HostNew && (everywhere.State == api.HostRegistered || hs.knownToClaude()):
		here.State, here.Change, here.Covered = api.HostRegistered, nil, "claude-code-user"
		everywhere.Covered = ""
		if everywhere.State == api.HostNew {
			everywhere.State, everywhere.Change = api.HostRegistered, nil
		}
	case everywhere.State == api.HostNew && (here.State == api.HostRegistered || here.State == api.HostDiffers):
		everywhere.State, everywhere.Change, everywhere.Covered = api.HostRegistered, nil, here.Host
	case everywhere.State == api.HostNew && here.State == api.HostNew:
		everywhere.Covered = here.Host
	}
	return list
}

// knownToClaude reports whether Claude Code has pml in its settings for this
// folder alone.
func (hs *Hosts) knownToClaude() bool {
	for _, t := range hs.place().Targets() {
		if t.Host == "claude-code-user" {
			f, err := hs.hostFile(t)
			return err == nil && hs.place().Knows(f.text)
		}
	}
	return false
}

// hostJob is a change of one host's file, with what it takes to write it.
type hostJob struct {
	api.HostChange
	target hosts.Target
	file   hostFile
	was    *registration
	next   registration  // what is to be remembered, for one that is added
	back   *registration // what comes back when one is taken out
}

// hostJob prepares the change of one host. Whatever is in its way is the reason
// of a host that is unusable.
func (hs *Hosts) hostJob(t hosts.Target, was *registration, undo bool) *hostJob {
	j := &hostJob{target: t, was: was, HostChange: api.HostChange{Host: t.Host, Title: t.Title, File: t.File, Hint: t.Hint}}
	var err error
	if j.file, err = hs.hostFile(t); err == nil {
		if undo {
			err = hs.prepareUndo(j)
		} else {
			err = hs.prepareRegistering(j)
		}
	}
	if err != nil {
		e := core.AsError(err)
		j.State, j.Change, j.Reason = api.HostUnusable, nil, err.Error()
		if len(e.Faults) > 0 {
			j.Reason = e.Faults[0].Message
			if at := e.Faults[0].At; at != nil {
				j.Reason += fmt.Sprintf(" (line %d)", at.Line)
			}
		}
		j.Reason = core.Visible(j.Reason, 500, false)
	}
	return j
}

// hostProgram is what a host starts, and what a person must know of it.
func (hs *Hosts) hostProgram(t hosts.Target) (name string, notes []string, err error) {
	path, lerr := hs.o.LookPath("pml")
	onPath := lerr == nil && filepath.IsAbs(path)
	switch {
	case t.Shared && !onPath:
		return "pml", []string{"there is no pml in PATH yet: put it there, or the host cannot start it"}, nil
	case t.Shared, onPath && !t.NoPath:
		return "pml", nil, nil
	case onPath:
		return path, nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, errors.New("pml cannot find its own program")
	}
	if dir := filepath.ToSlash(filepath.Dir(self)); strings.Contains(dir, "/go-build") && strings.HasSuffix(dir, "/exe") {
		return "", nil, errors.New("this pml was built by go run and goes away again: install it first")
	}
	return self, nil, nil
}

func (hs *Hosts) prepareRegistering(j *hostJob) error {
	program, notes, err := hs.hostProgram(j.target)
	if err != nil {
		return err
	}
	want := j.target.Own(program)
	have, err := j.target.Look(j.file.text, want)
	if err != nil {
		return err
	}
	if have.Same {
		j.State = api.HostRegistered
		if have.Name != want.Name {
			j.Reason = "as " + core.Visible(have.Name, 60, false)
		}
		return nil
	}
	base := j.base(have)
	j.next.Host, j.next.File, j.next.Workspace = j.Host, j.File, hs.o.Workspace.Dir
	if j.next.Edit, err = j.target.Set(base, want); err != nil {
		return err
	}
	after, _ := j.next.Edit.Apply(base)
	now, err := j.target.Look(after, want)
	if err != nil {
		return err
	}
	j.next.Digest = now.Digest
	j.State = api.HostNew
	minus, plus := []string(nil), linesOf(j.next.Edit.New)
	switch {
	case have.There:
		j.State, minus, plus = api.HostDiffers, have.Shown, now.Shown
	case j.target.Hook != "": // the edit may span hooks of others
		plus = now.Shown
	}
	if j.target.Pinned {
		notes = append(notes, "the host starts pml in no certain folder: this entry works in "+hs.o.Workspace.Dir+", whatever the host has open")
	}
	if j.target.Shared && !j.target.Mine {
		notes = append(notes, "the file is part of the workspace: whoever gets it needs pml in PATH")
	}
	return hs.proposeHost(j, after, lineAt(after, j.next.Edit.At, j.next.Edit.New), minus, plus, notes...)
}

// base is the text that a new entry is put into: where the file has one that
// pml wrote, the text without it, so that undo goes back to what was before pml.
func (j *hostJob) base(have hosts.Standing) []byte {
	j.next.Created = !j.file.exists
	if j.was == nil || !have.There || j.was.Digest != have.Digest {
		return j.file.text
	}
	back, err := j.target.Unset(j.file.text, j.was.Edit)
	if err != nil {
		return j.file.text
	}
	text, _ := back.Apply(j.file.text)
	j.next.Created, j.next.Dir = j.was.Created, j.was.Dir
	j.next.Before = j.was.besides(j.next.Workspace)
	return text
}

// giveBack puts the entry of another workspace, which pml's own has replaced,
// into the text without pml. One whose folder is gone stays away.
func (hs *Hosts) giveBack(j *hostJob, text []byte) (after []byte, note string) {
	was := j.was.Before.besides(hs.o.Workspace.Dir)
	for was != nil && !exists(was.Workspace) {
		was = was.Before
	}
	if was == nil {
		return text, ""
	}
	program, _, err := hs.hostProgram(j.target)
	if err != nil {
		return text, ""
	}
	entry, back := j.target.Own(program), *was
	for name, value := range entry.Env {
		if value == hs.o.Workspace.Dir {
			entry.Env[name] = was.Workspace
		}
	}
	if back.Edit, err = j.target.Set(text, entry); err != nil {
		return text, ""
	}
	after, _ = back.Edit.Apply(text)
	now, err := j.target.Look(after, entry)
	if err != nil {
		return text, ""
	}
	back.Digest, back.Created, back.Dir = now.Digest, j.was.Created, j.was.Dir
	j.back = &back
	return after, "the entry that works in " + was.Workspace + ", which this one had replaced, comes back"
}

func (hs *Hosts) prepareUndo(j *hostJob) error {
	if j.was == nil {
		j.State = api.HostGone
		return nil
	}
	have, err := j.target.Look(j.file.text, j.target.Own(""))
	if err != nil {
		return err
	}
	if !have.There || have.Name != j.target.Own("").Name {
		j.State = api.HostGone
		return nil
	}
	edit, err := j.target.Unset(j.file.text, j.was.Edit)
	if err != nil {
		return err
	}
	after, _ := edit.Apply(j.file.text)
	var notes []string
	if have.Digest == j.was.Digest {
		var note string
		if after, note = hs.giveBack(j, after); note != "" {
			notes = append(notes, note)
		}
	}
	left, err := j.target.Look(after, j.target.Own(""))
	if err != nil {
		return err
	}
	if after == nil {
		after = []byte{} // a file that was empty stays
	}
	if j.was.Created && j.target.Blank(after) {
		after = nil
		notes = append(notes, "nothing else is in the file, which pml made: it goes as well")
	}
	j.State = api.HostAdded
	minus := linesOf(edit.Old)
	if have.Digest != j.was.Digest {
		j.State = api.HostChanged
		notes = append(notes, "somebody has changed the entry since pml wrote it")
	}
	if left.There || j.State == api.HostChanged || j.target.Hook != "" {
		minus = have.Shown
	}
	return hs.proposeHost(j, after, lineAt(j.file.text, edit.At, edit.Old), minus, left.Shown, notes...)
}

// linesOf are the lines of a part of a text, without the space around it.
func linesOf(part string) []string {
	part = strings.TrimLeft(strings.TrimRight(part, " \t\r\n"), "\r\n")
	return strings.Split(strings.ReplaceAll(part, "\r\n", "\n"), "\n")
}

// lineAt is the line on which a part of a text begins, line ends before it left
// out.
func lineAt(text []byte, at int, part string) int {
	at += len(part) - len(strings.TrimLeft(part, "\r\n"))
	return bytes.Count(text[:min(at, len(text))], []byte("\n")) + 1
}

// proposeHost makes the change that a person is shown: nothing of the file but
// pml's own entry is in it, since the rest may hold keys.
func (hs *Hosts) proposeHost(j *hostJob, after []byte, line int, minus, plus []string, notes ...string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "@@ line %d @@\n", line)
	for _, p := range diff.Compare(minus, plus) {
		text.WriteString(string(p.Sign) + strings.ReplaceAll(p.Text, "\t", "  ") + "\n")
	}
	cfg, err := hs.load()
	if err != nil {
		return err // what the keys are is not known
	}
	ch := api.Change{
		File: j.File, Diff: core.Visible(redact.New(cfg.Secrets()).String(text.String()), 0, true), Notes: notes, After: after,
	}
	if j.file.exists {
		ch.Before = j.file.text
		if ch.Before == nil {
			ch.Before = []byte{}
		}
	}
	ch.Digest = changeDigest(ch)
	j.Change = &ch
	return nil
}

// WriteHost writes a change that HostChanges has made and a person has agreed
// to, or forgets an entry that is gone. Where it would not be the same any more, nothing is written:
// core.CodeDigestMismatch.
func (hs *Hosts) WriteHost(_ context.Context, want api.HostChange) error {
	unlock, err := hs.o.Machine.Exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	targets, err := hs.hostTargets(api.HostRequest{Hosts: []string{want.Host}})
	if err != nil {
		return err
	}
	done, err := hs.registrations()
	if err != nil {
		return err
	}
	undo := want.State == api.HostAdded || want.State == api.HostChanged || want.State == api.HostGone
	j := hs.hostJob(targets[0], done.of(targets[0]), undo)
	if want.State == api.HostGone && j.State == api.HostGone {
		return hs.saveRegistrations(done.without(j.target)) // it is only forgotten
	}
	if want.Change == nil || j.Change == nil || j.Change.Digest != want.Change.Digest {
		return core.Errorf(core.CodeDigestMismatch, "%s has changed since the change was shown; nothing was written, look at it again", want.File)
	}
	if undo {
		if err := j.write(); err != nil {
			return err
		}
		if j.back != nil {
			return hs.saveRegistrations(done.with(*j.back))
		}
		return hs.saveRegistrations(done.without(j.target))
	}
	// First the note, then the file: what a kill leaves is a note of nothing.
	if dir := filepath.Dir(j.file.path); j.target.Shared && !exists(dir) {
		j.next.Dir = dir
	}
	j.next.At = hs.now()
	if err := hs.saveRegistrations(done.with(j.next)); err != nil {
		return err
	}
	return j.write()
}
