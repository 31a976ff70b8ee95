package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/policy"
)

// restamp is how old a look at the files may be: many calls at the same moment
// share one.
const restamp = 10 * time.Millisecond

// stamps tell the state of each file that settings are read from.
type stamps [stampedFiles]string

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

func stampOf(name string) string {
	fi, err := os.Stat(name)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d.%d", fi.ModTime().UnixNano(), fi.Size())
}

// read reads everything anew. What another process writes in the middle of it,
// the lock and then the trust in it, must not look like a lack of trust.
func (h *Host) read() (*settings, error) {
	for try := 1; ; try++ {
		s, err := h.readOnce()
		if try == readTries || err == nil && s.trust.Trusted || s.stamp == h.stamps() {
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
	s.redact = newRedaction(s.all.Secrets(), h.o.OAuth, h.o.Home.Credentials())
	if s.lock, err = install.ReadLock(h.o.Workspace.Lock()); err != nil {
		return s, err
	}
	s.homeLock, err = install.ReadLock(h.homeLockPath())
	return s, err
}

// homeLockPath is where servers of the home's configuration are pinned: they
// belong to no workspace.
func (h *Host) homeLockPath() string { return filepath.Join(h.o.Home.Dir, "pml.lock") }
