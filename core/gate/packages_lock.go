package gate

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// Packages are the programs of a workspace's servers as a person manages them:
// pinned in pml.lock, updated and removed.
type Packages struct{ host *Host }

// Packages manages what the servers of this workspace run.
func (h *Host) Packages() Packages { return Packages{h} }

// Lock brings the workspace's pml.lock up to date: packages that are not
// pinned are resolved and pinned, entries of servers that are gone go, and the
// servers that need no decision are started, so that their commands, files and
// tools are recorded. It approves nothing: what differs from what is pinned
// stays as it is until a person has accepted it. With check nothing is written
// or started, and Changed names the servers whose entry is missing or stale.
// Without names it is all servers of the workspace.
func (p Packages) Lock(ctx context.Context, check bool, names ...string) (api.LockReport, error) {
	s, err := p.host.reader.fresh()
	if err != nil {
		return api.LockReport{}, err
	}
	all := len(names) == 0
	if names, err = s.selected(names); err != nil {
		return api.LockReport{}, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return s.all.Servers[name].Origin != env.FromWorkspace })
	report := api.LockReport{File: p.host.o.Workspace.Lock(), Changed: []string{}, Servers: []api.ServerInfo{}}
	if check {
		s, err = s.fromFile()
	} else {
		err = s.lockAside()
	}
	if err != nil {
		return report, err
	}
	gone := []string{}
	if all {
		gone = s.orphans()
	}
	if check {
		report.Changed, report.Gone = append(report.Changed, gone...), gone
		for _, name := range names {
			report.Servers = append(report.Servers, p.host.info(s, name))
			if p.stale(s, name) {
				report.Changed = append(report.Changed, name)
			}
		}
		slices.Sort(report.Changed)
		return report, nil
	}
	before, err := install.ReadLock(report.File)
	if err != nil {
		return report, err
	}
	if err := p.pinAll(ctx, s, names, gone); err != nil {
		return report, err
	}
	if len(names) > 0 {
		if report.Servers, err = p.host.CheckServers(ctx, names...); err != nil {
			return report, err
		}
	}
	after, err := install.ReadLock(report.File)
	if err != nil {
		return report, err
	}
	report.Changed, report.Gone = changedEntries(before, after), gone
	report.Written = len(report.Changed) > 0
	return report, nil
}

// orphans are the entries of pml.lock whose servers the workspace no longer has.
func (s *settings) orphans() []string {
	out := []string{}
	for name := range s.lock.Servers {
		if e, ok := s.all.Servers[name]; !ok || e.Origin != env.FromWorkspace {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// stale reports whether the entry of a server does not say what the
// configuration says now. Its command and tools may not be recorded yet: they
// are once it runs, which somebody may have to approve first. One whose program
// this machine does not have is recorded by others.
func (p Packages) stale(s *settings, name string) bool {
	srv := &server{host: p.host, set: s, name: name, entry: s.all.Servers[name]}
	e, ok := s.lock.Servers[name]
	resolved, err := s.all.Resolve(name)
	if err != nil {
		return !ok // without its variables a command cannot be compared
	}
	if !ok {
		return !srv.isForeign(resolved)
	}
	if resolved.Type != env.TypeStdio {
		spec, err := endpoint(resolved)
		return err != nil || e.CommandDigest != "" && e.CommandDigest != spec.CommandDigest
	}
	spec, err := srv.recognize(resolved)
	if err != nil {
		return true
	}
	if e.CommandDigest != "" && e.CommandDigest != spec.CommandDigest {
		return true
	}
	if spec.Kind == launch.KindNPM {
		return srv.pinned(spec) == nil
	}
	g, err := srv.runs(spec, resolved)
	// A program outside of the workspace is another one on each machine.
	if slices.ContainsFunc(g.Found().Files, func(f launch.File) bool { return !inFolder(p.host.o.Workspace.Dir, f.Path) }) {
		return false
	}
	return err != nil || g.Digest() != e.FileDigest
}

// isForeign reports whether a server runs a program, named by its name alone,
// that this machine does not have.
func (s *server) isForeign(r env.Resolved) bool {
	spec, err := s.recognize(r)
	if err != nil || r.Type != env.TypeStdio || len(spec.Files) == 0 || strings.ContainsAny(spec.Files[0].Name, `/\`) {
		return false
	}
	spec.Files = spec.Files[:1]
	_, err = s.host.o.Installer.Files.Locate(spec, s.placeOf(r))
	return err != nil
}

// inFolder reports whether a file, and what it is a link to, lies in a folder.
func inFolder(dir, file string) bool {
	real, err := filepath.EvalSymlinks(file)
	return err == nil && strings.HasPrefix(real, dir+string(filepath.Separator))
}

// pinAll pins the packages that are not pinned, and drops the entries of gone.
func (p Packages) pinAll(ctx context.Context, s *settings, names, gone []string) error {
	for _, name := range names {
		if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
			return deny
		}
		// A namesake in the home runs; it is not what is to be locked.
		if s.granted.Servers[name].Origin != env.FromWorkspace {
			return s.notTrusted(name)
		}
	}
	for _, name := range names {
		srv := p.host.serverOf(s, name)
		resolved, err := s.granted.Resolve(name)
		if err != nil || resolved.Type != env.TypeStdio {
			continue // its info says what is wrong
		}
		spec, err := srv.recognize(resolved)
		if err != nil || spec.Kind != launch.KindNPM || srv.pinned(spec) != nil {
			continue
		}
		want, err := p.host.o.Installer.Resolve(ctx, spec, nil)
		if err != nil {
			return err
		}
		if err := srv.updateLock(func(e *install.LockEntry) { *e = pinnedEntry(*e, want, spec) }); err != nil {
			return err
		}
	}
	for _, name := range gone {
		srv := &server{host: p.host, set: s, name: name, entry: env.ServerEntry{Name: name, Origin: env.FromWorkspace}}
		if err := srv.updateLock(func(e *install.LockEntry) { *e = install.LockEntry{} }); err != nil {
			return err
		}
	}
	return nil
}

// pinnedEntry is an entry that pins another tree. Its command stays the one
// that was approved; the tools that were recorded stay only with their tree.
func pinnedEntry(old install.LockEntry, want install.Resolved, spec launch.Spec) install.LockEntry {
	e := want.Entry(spec)
	e.CommandDigest = old.CommandDigest
	if old.Digest == want.Digest {
		e.Tools, e.ReadOnly = old.Tools, old.ReadOnly
	}
	return e
}

// changedEntries names the servers whose entries differ.
func changedEntries(before, after install.Lock) []string {
	out := []string{}
	same := func(a, b install.LockEntry) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX == nil && errY == nil && string(x) == string(y)
	}
	for name, e := range after.Servers {
		if old, ok := before.Servers[name]; !ok || !same(old, e) {
			out = append(out, name)
		}
	}
	for name := range before.Servers {
		if _, ok := after.Servers[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
