package gate

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/install"
	"github.com/casys-ai/pml/core/oauth"
	"github.com/casys-ai/pml/core/policy"
	"github.com/casys-ai/pml/core/redact"
)

// restamp is how old a look at the files may be in the middle of a run: its many
// calls at the same moment share one. What begins anew looks for itself, and so does
// what follows the answer to a call.
const restamp = 10 * time.Millisecond

// stamps tell the state of each file that settings are read from.
type stamps [stampedFiles]stamp

// stamp tells the state of a file; nil: there is none that can be seen. Of a folder
// within tells the state of what is in it.
type stamp struct {
	info   os.FileInfo
	within string
}

// same reports whether a file has the same state: a file that replaced another
// one has not, whatever its age and size.
func (a stamp) same(b stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == nil && b.info == nil
	}
	return a.within == b.within && a.info.ModTime().Equal(b.info.ModTime()) && a.info.Size() == b.info.Size() && os.SameFile(a.info, b.info)
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
	stampFlows     // a folder
	stampHomeFlows // a folder
	stampedFiles
)

// flowDirs are the folders of flows: the workspace's and the home's.
type flowDirs struct{ work, home string }

// settings are the configuration with all that is derived from it.
type settings struct {
	stamp    stamps   // of the files it was read from
	flowDirs flowDirs // whose flows were read
	// files is the same for settings that differ only in what this host itself
	// has written since, so that what it knows of servers stays.
	files   *int
	all     *env.Config
	granted *env.Config // what this machine trusts of it
	trust   env.TrustState
	policy  *policy.Policy
	routing routing
	expose  exposing
	flows   *flow.Set
	redact  *redact.Secrets
	// lock pins the workspace's own servers, homeLock those of the home.
	lock, homeLock install.Lock
}

// settingsReader reads the settings of one workspace, and keeps them until one of
// their files changes.
type settingsReader struct {
	workspace env.Workspace
	home      env.Home
	environ   env.Environ
	server    string // the --server flag
	oauth     *oauth.Client
	clock     core.Clock

	mu     sync.Mutex
	last   *settings // replaced as a whole when the files change
	looked time.Time // when the files were last looked at; zero: look again
	looks  atomic.Uint64
}

// stamps looks at the files.
func (r *settingsReader) stamps(flows flowDirs) (out stamps) {
	w := r.workspace
	for i, name := range [stampedFiles]string{
		stampConfig: w.Config(), stampDotEnv: w.DotEnv(), stampLock: w.Lock(),
		stampHomeConfig: r.home.Config(), stampHomeLock: r.homeLockPath(), stampTrust: r.home.Trust(),
		stampFlows: flows.work, stampHomeFlows: flows.home,
	} {
		if i >= stampFlows {
			out[i] = stampWithin(name)
			continue
		}
		out[i] = stampOf(name)
	}
	return out
}

// stampWithin is the stamp of a folder with all that is in it.
func stampWithin(dir string) stamp {
	out := stampOf(dir)
	if out.info == nil {
		return out
	}
	var b strings.Builder
	_ = filepath.WalkDir(dir+string(filepath.Separator), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(&b, name, "cannot be read")
			return nil
		}
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintln(&b, name, info.ModTime().UnixNano(), info.Size(), info.Mode())
		}
		if b.Len() > maxWithin {
			return fs.SkipAll
		}
		return nil
	})
	out.within = b.String()
	return out
}

// maxWithin bounds what is looked at of a folder: it takes more than a folder of
// flows may have.
const maxWithin = 1 << 20

func stampOf(name string) stamp {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{info: info}
}

// lookAgain makes the next recent read the files however young the last look.
func (r *settingsReader) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = zeroTime
}

// redaction takes out the values of keys as they were last read.
func (r *settingsReader) redaction() *redact.Secrets {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.redact
}

// recent returns the configuration, read again when a file has changed. A file
// that was broken meanwhile is an error, never the old content.
func (r *settingsReader) recent() (*settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := r.clock.Now().Sub(r.looked); since >= 0 && since < restamp {
		return r.last, nil
	}
	return r.look()
}

// fresh returns the configuration for what begins now: a file that was changed
// before counts, however short the time since. Those who wait for each other
// share a look that has begun after all of them.
func (r *settingsReader) fresh() (*settings, error) {
	begun := r.looks.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks.Load() > begun && !r.looked.IsZero() {
		return r.last, nil
	}
	return r.look()
}

// look looks at the files; r.mu is held. After a look that failed there is none
// to be shared.
func (r *settingsReader) look() (*settings, error) {
	r.looks.Add(1)
	r.looked = r.clock.Now()
	if r.last.stamp.same(r.stamps(r.last.flowDirs)) {
		return r.last, nil
	}
	s, err := r.read()
	if err != nil {
		r.looked = zeroTime
		return nil, err
	}
	r.last = s
	return s, nil
}

// read reads everything anew. What another process writes in the middle of it,
// the lock and then the trust in it, must not look like a lack of trust.
func (r *settingsReader) read() (*settings, error) {
	for try := 1; ; try++ {
		s, err := r.readOnce()
		if try == readTries || err == nil && s.trust.Trusted || s.stamp.same(r.stamps(s.flowDirs)) {
			return s, err
		}
	}
}

// readTries is how often files that change while they are read are read.
const readTries = 5

// readOnce returns settings with their stamp even when it fails.
func (r *settingsReader) readOnce() (*settings, error) {
	s := &settings{flowDirs: flowDirs{filepath.Join(r.workspace.Dir, ".pml", "flows"), filepath.Join(r.home.Dir, "flows")}, files: new(int)}
	s.stamp = r.stamps(s.flowDirs)
	var err error
	if s.all, err = r.load(); err != nil {
		return s, err
	}
	if dirs := (flowDirs{s.all.Flows, s.all.HomeFlows}); dirs != s.flowDirs { // it is read again once it is known which
		s.flowDirs = dirs
		s.stamp = r.stamps(s.flowDirs)
		if s.all, err = r.load(); err != nil {
			return s, err
		}
	}
	if s.trust, err = r.home.TrustOf(s.all); err != nil {
		return s, err
	}
	s.granted = s.all.Effective(s.trust.Counts())
	s.flows = flowsOf(s.all, s.trust)
	s.policy, err = policy.Compile(s.granted.Permissions)
	if err != nil {
		return s, s.all.Locate(err)
	}
	if s.routing, err = newRouting(s.granted); err != nil {
		return s, s.all.Locate(err)
	}
	if s.expose, err = newExposing(s.granted); err != nil {
		return s, s.all.Locate(err)
	}
	s.redact = r.secrets(s.all)
	if s.lock, err = r.readLock(s.trust); err != nil {
		return s, err
	}
	s.homeLock, err = install.ReadLock(r.homeLockPath())
	return s, err
}

// secrets are the values that must not be shown of a configuration.
func (r *settingsReader) secrets(c *env.Config) *redact.Secrets {
	o := redact.Options{Values: c.Secrets(), Keys: c.SecretKeys(), TokensDir: r.home.Credentials(), Clock: r.clock}
	if r.oauth != nil {
		o.Tokens = r.oauth.Secrets
	}
	return redact.NewSecrets(o)
}

// readLock reads the pml.lock in force. One that is broken is an error, also
// where it does not count.
func (r *settingsReader) readLock(trust env.TrustState) (install.Lock, error) {
	file, err := install.ReadLock(r.workspace.Lock())
	switch {
	case err != nil || !trust.LockAside:
		return file, err
	case len(trust.Lock) == 0:
		return install.NewLock(), nil
	}
	return install.ParseLock(r.workspace.Lock()+", as it was trusted", trust.Lock)
}

// load reads the configuration as it is now.
func (r *settingsReader) load() (*env.Config, error) {
	return env.Load(env.LoadOptions{Workspace: r.workspace, Home: r.home, Environ: r.environ, Server: r.server})
}

// lockPath is the pml.lock that pins the servers of an origin.
func (r *settingsReader) lockPath(origin env.Origin) string {
	if origin == env.FromWorkspace {
		return r.workspace.Lock()
	}
	return r.homeLockPath()
}

// homeLockPath is where servers of the home's configuration are pinned: they
// belong to no workspace.
func (r *settingsReader) homeLockPath() string { return filepath.Join(r.home.Dir, "pml.lock") }

// fromFile are the same settings with the pml.lock that is in the workspace, also
// where that does not count yet.
func (s *settings) fromFile() (*settings, error) {
	if !s.trust.LockAside {
		return s, nil
	}
	next := *s
	var err error
	next.lock, err = install.ReadLock(s.all.Workspace.Lock())
	return &next, err
}

// Trust is whether the workspace's files are trusted, and which pml.lock is in force.
func (h *Host) Trust() (env.TrustState, error) {
	s, err := h.reader.recent()
	if err != nil {
		return env.TrustState{}, err
	}
	return s.trust, nil
}

// unchanged reports whether a lock is still the one that this process has read or
// written last.
func (r *settingsReader) unchanged(s *settings, file int, path string) bool {
	stamp := stampOf(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.files == s.files && r.last.stamp[file].same(stamp)
}

// adopt takes a lock that this host itself has just written into its settings.
// What it knows stays valid: only that file changed, and by itself. When other
// settings were read meanwhile, or the file is another one by now, everything is
// read anew instead.
func (r *settingsReader) adopt(s *settings, file int, path string, written []byte, change func(*settings, install.Lock)) error {
	stamp, trust := stampOf(path), stampOf(r.home.Trust())
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, written) {
		return nil // the next look notices
	}
	lock, err := install.ParseLock(path, now)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Its own writes may have followed each other from the same settings.
	if r.last.files != s.files {
		return nil
	}
	next := *r.last
	change(&next, lock)
	next.stamp[file], next.stamp[stampTrust] = stamp, trust
	r.last = &next
	return nil
}
