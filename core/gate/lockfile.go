package gate

import (
	"cmp"
	"path/filepath"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/launch"
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
	return cmp.Or(s.locked().CommandDigest, s.host.o.Installer.Approvals.Newest(approvedCommand, s.approvalKey()))
}

func (s *server) recordedFile() string {
	return cmp.Or(s.locked().FileDigest, s.host.o.Installer.Approvals.Newest(approvedFile, s.approvalKey()))
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
	known, err := in.Approvals.NewestBelow(rememberedTool, s.toolKey(""))
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
	return recorded, in.Approvals.ApproveAll(news)
}

// lockPath is the pml.lock that pins this server.
func (s *server) lockPath() string { return s.host.reader.lockPath(s.entry.Origin) }

// pinned is what pml.lock says of the server's package, if it still is the
// package that the configuration names.
func (s *server) pinned(spec launch.Spec) *install.LockEntry {
	e := s.locked()
	if e.Digest == "" || e.Package != spec.Package || e.Range != spec.Range {
		return nil
	}
	return &e
}

// updateLock changes the server's entry in pml.lock.
func (s *server) updateLock(change func(*install.LockEntry)) error {
	return s.host.locks.update(s.set, s.entry.Origin, s.name, change)
}

// lockFiles writes the pml.lock of the workspace and that of the home.
type lockFiles struct {
	reader    *settingsReader
	approvals *install.Approvals // whose lock keeps other processes out
	mu        sync.Mutex         // held while pml.lock or .pml.json is rewritten
}

// exclusive keeps everybody else from rewriting pml.lock and .pml.json.
func (l *lockFiles) exclusive() (unlock func(), err error) {
	l.mu.Lock()
	free, err := l.approvals.Exclusive()
	if err != nil {
		l.mu.Unlock()
		return nil, err
	}
	return func() { free(); l.mu.Unlock() }, nil
}

// update changes the entry of a server in the pml.lock that pins it, and keeps the
// workspace trusted if it was: it is pml itself that writes what a person approved.
func (l *lockFiles) update(s *settings, origin env.Origin, name string, change func(*install.LockEntry)) error {
	unlock, err := l.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	path, file, trust := l.reader.lockPath(origin), stampLock, s.trust
	if origin != env.FromWorkspace {
		file = stampHomeLock
	} else if kept, err := l.updateAside(name, change, &trust); kept || err != nil {
		return err
	}
	alone := l.reader.unchanged(s, file, path)
	lock, err := install.ReadLock(path)
	if err != nil {
		return err
	}
	entry := lock.Servers[name]
	change(&entry)
	if lock.Servers == nil {
		lock.Servers = map[string]install.LockEntry{}
	}
	lock.Version = install.LockVersion
	lock.Servers[name] = entry
	trusted, written := false, []byte(nil)
	err = lock.WriteAfter(path, func(data []byte) (err error) {
		written = data
		if origin == env.FromWorkspace {
			trusted, err = l.expectTrust(trust, data)
		}
		return err
	})
	switch {
	case err != nil:
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w", filepath.Base(path), err)
	case file == stampHomeLock && alone:
		return l.reader.adopt(s, file, path, written, func(next *settings, lock install.Lock) { next.homeLock = lock })
	case trusted:
		return l.keepTrust(s, path, written, alone)
	}
	return nil
}

// updateAside changes the entry in the lock that was trusted where the file is set
// aside, and reports whether it did: what somebody else has written there is
// neither taken over nor overwritten. Where the file was trusted since the settings
// were read, trust becomes the state of now.
func (l *lockFiles) updateAside(name string, change func(*install.LockEntry), trust *env.TrustState) (bool, error) {
	now, err := l.reader.load()
	if err != nil {
		return false, err
	}
	state, err := l.reader.home.TrustOf(now)
	if err != nil || !state.LockAside {
		if err == nil && trust.LockAside && state.Trusted && state.Follows(*trust) {
			*trust = state
		}
		return false, err
	}
	lock, err := l.reader.readLock(state)
	if err != nil {
		return false, err
	}
	entry := lock.Servers[name]
	change(&entry)
	data, err := lock.With(map[string]install.LockEntry{name: entry})
	if err != nil {
		return false, err
	}
	kept, err := l.reader.home.KeepLock(*trust, now, data, l.reader.clock.Now())
	l.reader.lookAgain()
	if err == nil && !kept {
		err = core.Errorf(core.CodeNotTrusted, "what the files of %s grant has just changed; look at it and trust it", l.reader.workspace.Dir).WithNext("pml", "trust")
	}
	return true, err
}

// expectTrust keeps the workspace trusted over the write of pml.lock.
func (l *lockFiles) expectTrust(trust env.TrustState, data []byte) (bool, error) {
	now, err := l.reader.load()
	if err != nil {
		return false, err
	}
	return l.reader.home.ExpectLock(trust, now, data, l.reader.clock.Now())
}

// keepTrust trusts the workspace with the pml.lock that was just written.
func (l *lockFiles) keepTrust(s *settings, path string, written []byte, alone bool) error {
	after, err := l.reader.load()
	if err != nil {
		return err
	}
	trusted, err := l.reader.home.TrustLock(s.trust, after, written, l.reader.clock.Now())
	if err != nil || !trusted || !alone {
		return err
	}
	state, err := l.reader.home.TrustOf(after)
	if err != nil {
		return err
	}
	return l.reader.adopt(s, stampLock, path, written, func(next *settings, lock install.Lock) { next.trust, next.lock = state, lock })
}

// lockAside is the error of what rewrites pml.lock where that is not the one that
// was trusted.
func (s *settings) lockAside() error {
	if !s.trust.LockAside {
		return nil
	}
	return core.Errorf(core.CodeNotTrusted, "%s is not the one that was trusted here, which stays in force: another pml, or a person, has written it; look at the change and trust it first",
		s.all.Workspace.Lock()).WithNext("pml", "trust")
}
