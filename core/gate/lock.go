package gate

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
)

// locked is this server's entry of pml.lock.
func (s *server) locked() install.LockEntry {
	if s.entry.Origin == env.FromWorkspace {
		return s.set.lock.Servers[s.name]
	}
	return s.set.homeLock.Servers[s.name]
}

// recordedCommand and recordedFile are the digests of what ran before: as
// pml.lock has it or, when that says nothing, as this machine remembers it. A
// lock that was removed is no leave to run something else.
func (s *server) recordedCommand() string {
	return cmp.Or(s.locked().CommandDigest, s.host.o.Installer.Newest(approvedCommand, s.approvalKey()))
}

func (s *server) recordedFile() string {
	return cmp.Or(s.locked().FileDigest, s.host.o.Installer.Newest(approvedFile, s.approvalKey()))
}

// rememberedTool is the kind of the digests of tools as they were when they ran
// or were listed first: what pml.lock would say, and no approval of anybody.
const rememberedTool = "remembered tool"

// recordedTools are the digests of a server's tools as pml.lock has them. When it
// has none, those that this machine remembers are recorded there, and without
// any the tools as they are: they came with what was just approved. Those that
// agree are remembered on this machine from then on.
func (s *server) recordedTools(tools []core.Tool) (map[string]string, error) {
	in, recorded := s.host.o.Installer, s.locked().Tools
	known, err := in.NewestBelow(rememberedTool, s.toolKey(""))
	if err != nil {
		return nil, err
	}
	if recorded == nil {
		first := known
		if len(known) == 0 {
			first = make(map[string]string, len(tools))
			for _, t := range tools {
				first[t.Name] = install.ToolDigest(t)
			}
		}
		err := s.updateLock(func(e *install.LockEntry) {
			if e.Tools == nil { // else another process was faster
				e.Tools = first
			}
			recorded = e.Tools
		})
		if err != nil {
			return nil, err
		}
	}
	var news []install.Approval
	for _, t := range tools {
		if now := install.ToolDigest(t); recorded[t.Name] == now && known[t.Name] != now {
			news = append(news, install.Approval{Kind: rememberedTool, Key: s.toolKey(t.Name), Digest: now})
		}
	}
	if len(news) == 0 {
		return recorded, nil
	}
	return recorded, in.ApproveAll(news)
}

// lockPath is the pml.lock that pins this server.
func (s *server) lockPath() string {
	if s.entry.Origin == env.FromWorkspace {
		return s.host.o.Workspace.Lock()
	}
	return s.host.homeLockPath()
}

// pinned is what pml.lock says of the server's package, if it still is the
// package that the configuration names.
func (s *server) pinned(spec install.Spec) *install.LockEntry {
	e := s.locked()
	if e.Digest == "" || e.Package != spec.Package || e.Range != spec.Range {
		return nil
	}
	return &e
}

// updateLock changes the server's entry in pml.lock and keeps the workspace
// trusted if it was: it is pml itself that writes what a person approved.
func (s *server) updateLock(change func(*install.LockEntry)) error {
	h := s.host
	h.lockWrite.Lock()
	defer h.lockWrite.Unlock()
	unlock, err := h.o.Installer.Exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	path, file := s.lockPath(), stampLock
	if s.entry.Origin != env.FromWorkspace {
		file = stampHomeLock
	}
	alone := h.unchanged(s.set, file, path)
	lock, err := install.ReadLock(path)
	if err != nil {
		return err
	}
	entry := lock.Servers[s.name]
	change(&entry)
	if lock.Servers == nil {
		lock.Servers = map[string]install.LockEntry{}
	}
	lock.Version = install.LockVersion
	lock.Servers[s.name] = entry
	trusted, written := false, []byte(nil)
	err = lock.WriteAfter(path, func(data []byte) (err error) {
		written = data
		if s.entry.Origin == env.FromWorkspace {
			trusted, err = h.expectLock(s.set, data)
		}
		return err
	})
	switch {
	case err != nil:
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", filepath.Base(path), err)
	case file == stampHomeLock && alone:
		return h.adopt(s.set, file, path, written, func(next *settings, l install.Lock) { next.homeLock = l })
	case trusted:
		return h.keepTrust(s.set, path, written, alone)
	}
	return nil
}

// unchanged reports whether a lock is still the one that this host has read or
// written last.
func (h *Host) unchanged(s *settings, file int, path string) bool {
	stamp := stampOf(path)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config.files == s.files && h.config.stamp[file].same(stamp)
}

// expectLock keeps the workspace trusted over the write of pml.lock.
func (h *Host) expectLock(s *settings, data []byte) (bool, error) {
	now, err := env.Load(env.LoadOptions{Workspace: h.o.Workspace, Home: h.o.Home, Environ: h.o.Environ, Server: h.o.Server})
	if err != nil {
		return false, err
	}
	return h.o.Home.ExpectLock(s.trust, now, data, h.o.Clock.Now())
}

// keepTrust trusts the workspace with the pml.lock that was just written.
func (h *Host) keepTrust(s *settings, path string, written []byte, alone bool) error {
	after, err := env.Load(env.LoadOptions{Workspace: h.o.Workspace, Home: h.o.Home, Environ: h.o.Environ, Server: h.o.Server})
	if err != nil {
		return err
	}
	trusted, err := h.o.Home.TrustLock(s.trust, after, written, h.o.Clock.Now())
	if err != nil || !trusted || !alone {
		return err
	}
	state, err := h.o.Home.TrustOf(after)
	if err != nil {
		return err
	}
	return h.adopt(s, stampLock, path, written, func(next *settings, l install.Lock) { next.trust, next.lock = state, l })
}

// adopt takes a lock that this host itself has just written into its settings.
// What it knows stays valid: only that file changed, and by itself. When other
// settings were read meanwhile, or the file is another one by now, everything is
// read anew instead.
func (h *Host) adopt(s *settings, file int, path string, written []byte, change func(*settings, install.Lock)) error {
	stamp, trust := stampOf(path), stampOf(h.o.Home.Trust())
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, written) {
		return nil // the next look notices
	}
	lock, err := install.ParseLock(path, now)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// Its own writes may have followed each other from the same settings.
	if h.config.files != s.files {
		return nil
	}
	next := *h.config
	change(&next, lock)
	next.stamp[file], next.stamp[stampTrust] = stamp, trust
	h.config = &next
	return nil
}
