package gate

import (
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/policy"
)

// restamp is how old a look at the files may be in the middle of a run: its many
// calls at the same moment share one. What begins anew looks for itself.
const restamp = 10 * time.Millisecond

// stamps tell the state of each file that settings are read from.
type stamps [stampedFiles]stamp

// stamp tells the state of a file; nil: there is none that can be seen.
type stamp struct{ info os.FileInfo }

// same reports whether a file has the same state: a file that replaced another
// one has not, whatever its age and size.
func (a stamp) same(b stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == nil && b.info == nil
	}
	return a.info.ModTime().Equal(b.info.ModTime()) && a.info.Size() == b.info.Size() && os.SameFile(a.info, b.info)
}

func (a stamps) same(b stamps) bool {
	for i := range a {
		if !a[i].same(b[i]) {
			return false
		}
	}
	return true
}

// The files, by their place among the stamps.
const (
	stampConfig = iota
	stampDotEnv
	stampLock
	stampHomeConfig
	stampHomeLock
	stampTrust
	stampedFiles
)

func (h *Host) stamps() (out stamps) {
	w := h.o.Workspace
	for i, name := range [stampedFiles]string{
		stampConfig: w.Config(), stampDotEnv: w.DotEnv(), stampLock: w.Lock(),
		stampHomeConfig: h.o.Home.Config(), stampHomeLock: h.homeLockPath(), stampTrust: h.o.Home.Trust(),
	} {
		out[i] = stampOf(name)
	}
	return out
}

func stampOf(name string) stamp {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

// lookAgain makes the next settings read the files however young the last look.
func (h *Host) lookAgain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked = zeroTime
}

// settings returns the configuration, read again when a file has changed. A
// file that was broken meanwhile is an error, never the old content.
func (h *Host) settings() (*settings, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := h.o.Clock.Now().Sub(h.looked); since >= 0 && since < restamp {
		return h.config, nil
	}
	return h.look()
}

// settingsNow are the settings for what begins now: a file that was changed
// before counts, however short the time since. Those who wait for each other
// share a look that has begun after all of them.
func (h *Host) settingsNow() (*settings, error) {
	begun := h.looks.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looks.Load() > begun && !h.looked.IsZero() {
		return h.config, nil
	}
	return h.look()
}

// look looks at the files; h.mu is held. After a look that failed there is none
// to be shared.
func (h *Host) look() (*settings, error) {
	h.looks.Add(1)
	h.looked = h.o.Clock.Now()
	if h.config.stamp.same(h.stamps()) {
		return h.config, nil
	}
	s, err := h.read()
	if err != nil {
		h.looked = zeroTime
		return nil, err
	}
	h.config = s
	return s, nil
}

// read reads everything anew. What another process writes in the middle of it,
// the lock and then the trust in it, must not look like a lack of trust.
func (h *Host) read() (*settings, error) {
	for try := 1; ; try++ {
		s, err := h.readOnce()
		if try == readTries || err == nil && s.trust.Trusted || s.stamp.same(h.stamps()) {
			return s, err
		}
	}
}

// readTries is how often files that change while they are read are read.
const readTries = 5

// readOnce returns settings with their stamp even when it fails.
func (h *Host) readOnce() (*settings, error) {
	s := &settings{stamp: h.stamps(), files: new(int)}
	var err error
	s.all, err = env.Load(env.LoadOptions{Workspace: h.o.Workspace, Home: h.o.Home, Environ: h.o.Environ, Server: h.o.Server})
	if err != nil {
		return s, err
	}
	if s.trust, err = h.o.Home.TrustOf(s.all); err != nil {
		return s, err
	}
	s.granted = s.all.Effective(s.trust.Trusted)
	p := s.granted.Permissions
	s.policy, err = policy.Compile(policy.Rules{Allow: p.Allow, Deny: p.Deny, Ask: p.Ask, ReadOnly: p.ReadOnly})
	if err != nil {
		return s, s.all.Locate(err)
	}
	if s.routing, err = newRouting(s.granted); err != nil {
		return s, s.all.Locate(err)
	}
	if s.expose, err = newExposing(s.granted); err != nil {
		return s, s.all.Locate(err)
	}
	s.redact = newRedaction(s.all.Secrets(), h.o.OAuth, h.o.Home.Credentials(), h.o.Clock)
	if s.lock, err = install.ReadLock(h.o.Workspace.Lock()); err != nil {
		return s, err
	}
	s.homeLock, err = install.ReadLock(h.homeLockPath())
	return s, err
}

// homeLockPath is where servers of the home's configuration are pinned: they
// belong to no workspace.
func (h *Host) homeLockPath() string { return filepath.Join(h.o.Home.Dir, "pml.lock") }
