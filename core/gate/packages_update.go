package gate

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
)

// Update looks for a newer tree of a server's package within its range
// and says how it differs from the pinned one. With the digest of what was
// shown it installs exactly that, pins it, ends the old process, starts the new
// one and says how its tools differ; they are recorded, because they came with
// the tree that was just approved. A tree with another digest by now is
// core.CodeDigestMismatch.
func (p Packages) Update(ctx context.Context, req api.UpdateRequest, progress func(string)) (api.Update, error) {
	srv, spec, err := p.updatable(req.Name)
	if err != nil {
		return api.Update{}, err
	}
	in, old := p.host.o.Installer, srv.locked()
	resolving, cancel := srv.set.resolving(ctx)
	defer cancel()
	want, err := in.Latest(resolving, spec)
	err = unresolved(srv, err)
	if !p.host.info(srv.set, req.Name).Installed { // what would be started cannot be found out, or can again
		p.host.starts.keep(ctx, srv, err, lastStart{})
	}
	if err != nil {
		return api.Update{}, srv.set.clean(err)
	}
	u := api.Update{
		Name: req.Name, Package: want.Name, Range: spec.Range, To: want.Version, Digest: want.Digest,
		Packages: []api.PackageChange{}, Scripts: orEmpty(want.Scripts), SizeBytes: want.SizeBytes,
	}
	if old.Package == want.Name {
		u.From, u.OldDigest = old.Version, old.Digest
	} else {
		old.Packages = nil
	}
	if u.Current, err = srv.current(spec, want); err != nil {
		return u, err
	}
	for _, d := range install.ComparePackages(old.Packages, want.Packages) {
		u.Packages = append(u.Packages, api.PackageChange(d))
	}
	switch {
	case req.Digest == "":
		return u, nil
	case req.Digest != want.Digest:
		return u, core.Errorf(core.CodeDigestMismatch, "%s@%s is no longer the tree that was shown (%s, now %s); look at it again",
			want.Name, want.Version, core.Visible(req.Digest, 80, false), want.Digest).WithNext("pml", "servers", "update", req.Name)
	}
	installing, cancel := srv.set.installing(ctx, want)
	defer cancel()
	if _, err := in.Install(installing, spec, want, req.Scripts, progress); err != nil {
		return u, srv.set.clean(err)
	}
	if err := srv.pin(spec, want, req.Scripts, func(e install.LockEntry) map[string]string { return e.Tools }); err != nil {
		return u, err
	}
	u.Installed = true
	p.host.o.Upstream.Stop(req.Name, p.host.o.Workspace.Dir)
	progress("starting " + req.Name)
	u.Tools, err = p.adoptTools(ctx, req.Name)
	if _, collectErr := in.Collect(ctx); collectErr != nil {
		p.host.o.Logger.Warn("cannot remove packages that nobody uses", "error", collectErr)
	}
	return u, err
}

// current reports whether a tree is the pinned one, or nothing is pinned, and it is
// installed and approved on this machine: pml.lock alone may have come from
// somewhere else. Another range that stands for the same tree, or a lock without
// the server, is written down with the next start and asks nobody.
func (s *server) current(spec launch.Spec, want install.Resolved) (bool, error) {
	old := s.locked()
	if old.Digest != want.Digest && old.Digest != "" {
		return false, nil
	}
	_, installed, err := s.approvedTree(spec, want.Digest)
	return installed, err
}

// updatable returns a server that is installed from npm.
func (p Packages) updatable(name string) (*server, launch.Spec, error) {
	fail := func(err error) (*server, launch.Spec, error) { return nil, launch.Spec{}, err }
	s, err := p.host.reader.fresh()
	if err != nil {
		return fail(err)
	}
	if _, err := s.selected([]string{name}); err != nil {
		return fail(err)
	}
	if deny := s.refused(name+":*", name); deny != nil && deny.Code != core.CodePermissionDenied {
		return fail(deny)
	}
	if s.granted.Servers[name].Origin == env.FromWorkspace {
		if err := s.lockAside(); err != nil {
			return fail(err)
		}
	}
	if builtin(name) || s.granted.Servers[name].Type != env.TypeStdio {
		return fail(notFromNPM(name))
	}
	resolved, err := s.granted.Resolve(name)
	if err != nil {
		return fail(err)
	}
	srv := p.host.serverOf(s, name)
	spec, err := srv.recognize(resolved)
	if err != nil {
		return fail(err)
	}
	if spec.Kind != launch.KindNPM {
		return fail(notFromNPM(name))
	}
	return srv, spec, nil
}

func notFromNPM(name string) error {
	return core.Errorf(core.CodeInvalidArguments, "the server %s is not installed from npm by pml, so there is nothing to update; a change of its command or file is asked about", name)
}

// adoptTools starts a server whose tree was just approved and records its tools
// as they are now. It returns how they differ from those before.
func (p Packages) adoptTools(ctx context.Context, name string) ([]api.ToolChange, error) {
	s, err := p.host.reader.fresh()
	if err != nil {
		return nil, err
	}
	k, srv := p.host.servers.of(name), p.host.serverOf(s, name)
	p.host.servers.forget(name)
	r, err := k.prepare(ctx, s)
	if err != nil {
		return nil, s.clean(err)
	}
	if len(r.asks) > 0 || len(r.diff) == 0 {
		// Tools that could not be listed yet are compared, and asked about one
		// by one, when they are.
		return nil, nil
	}
	now, approved := map[string]string{}, []install.Approval{}
	for tool, t := range r.tools {
		t.Server = name
		now[tool] = install.ToolDigest(t)
		approved = append(approved, install.Approval{Kind: approvedTool, Key: srv.toolKey(tool), Digest: now[tool]})
		srv.keepTool(t)
	}
	if err = p.host.o.Installer.Approvals.ApproveAll(approved); err == nil {
		err = srv.updateLock(func(e *install.LockEntry) { e.Tools = now })
	}
	p.host.servers.forget(name)
	return r.diff, err
}

// Purge removes what is kept for a server that was taken out of the
// configuration: its entry of pml.lock and, unless others use it, its installed
// package. What was approved for it on this machine is forgotten with it: one of
// the same name that comes later is another server.
func (p Packages) Purge(name string) (api.Removed, error) {
	removed := api.Removed{Name: name}
	s, err := p.host.reader.fresh()
	if err != nil {
		return removed, err
	}
	srv, entry, ok := p.leftover(s, name)
	if err := os.Remove(p.host.starts.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return removed, core.Errorf(core.CodeStoreFailed, "what is kept of the last start of %s cannot be removed: %w", core.Visible(name, 100, false), err)
	}
	if !ok {
		return removed, nil
	}
	p.host.o.Upstream.Stop(name, p.host.o.Workspace.Dir)
	defer p.host.servers.forget(name)
	in := p.host.o.Installer
	if entry.Package != "" {
		scripts, _ := in.Approvals.PackageApproved(srv.approvalKey(), entry.Digest)
		pkg, installed, err := in.Installed(launch.Spec{Kind: launch.KindNPM, Package: entry.Package, Range: entry.Range}, entry.Digest, scripts)
		if err != nil {
			return removed, err
		}
		if err := in.Release(srv.user()); err != nil {
			return removed, err
		}
		if installed {
			if err := purgeTree(in, pkg, &removed); err != nil {
				return removed, err
			}
		}
	}
	if err := in.Approvals.Forget(srv.approvalKey()); err != nil {
		return removed, err
	}
	// The entry is last: after a kill the rest can be done again.
	return removed, srv.updateLock(func(e *install.LockEntry) { *e = install.LockEntry{} })
}

// leftover finds the entry of pml.lock, the workspace's or the home's, of a
// server that its configuration has no longer, or still has.
func (p Packages) leftover(s *settings, name string) (*server, install.LockEntry, bool) {
	e := env.ServerEntry{Name: name, Origin: env.FromWorkspace}
	entry, ok := s.lock.Servers[name]
	if configured := s.all.Servers[name]; !ok || configured.Origin == env.FromHome {
		e.Origin = env.FromHome
		if entry, ok = s.homeLock.Servers[name]; configured.Origin == env.FromWorkspace {
			ok = false
		}
	}
	return &server{host: p.host, set: s, name: name, entry: e}, entry, ok
}

func purgeTree(in *install.Installer, pkg install.Installed, removed *api.Removed) error {
	users, err := in.Users(pkg)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		for _, user := range users {
			removed.Kept = append(removed.Kept, pkg.Name+"@"+pkg.Version+" is used by "+core.Visible(user, 200, false))
		}
		return nil
	}
	gone, err := in.Remove(pkg)
	if err != nil {
		return err
	}
	removed.Trees, removed.Bytes = append(removed.Trees, gone.Dir), removed.Bytes+gone.Bytes
	return nil
}
