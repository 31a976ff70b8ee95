package install

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// approvals is the file of what was approved on this machine: by kind and key
// the digests, oldest first.
type approvals struct {
	Version  int                            `json:"version"`
	Approved map[string]map[string][]string `json:"approved"`
}

// keepApproved is how many digests of one key are remembered, so that going
// back to the version before asks nothing.
const keepApproved = 20

func (in *Installer) trustPath() string { return filepath.Join(in.o.Home, ".approved.json") }

// Approved reports whether a digest was approved on this machine for a key of
// a kind. A record that cannot be read approves nothing.
func (in *Installer) Approved(kind, key, digest string) bool {
	a, err := in.readApproved()
	if err != nil {
		in.o.Logger.Warn("cannot read what was approved on this machine", "error", err)
		return false
	}
	return digest != "" && slices.Contains(a.Approved[kind][key], digest)
}

// Newest returns the digest that was approved last on this machine for a key of
// a kind, empty when none was or the record cannot be read.
func (in *Installer) Newest(kind, key string) string {
	a, err := in.readApproved()
	if err != nil {
		in.o.Logger.Warn("cannot read what was approved on this machine", "error", err)
		return ""
	}
	list := a.Approved[kind][key]
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// NewestBelow returns, by the rest of their keys, the digests that were approved
// last for all keys of a kind that begin with prefix. A record that cannot be
// read is an error: that nothing is known must not look like nothing there.
func (in *Installer) NewestBelow(kind, prefix string) (map[string]string, error) {
	a, err := in.readApproved()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for key, list := range a.Approved[kind] {
		if rest, ok := strings.CutPrefix(key, prefix); ok && len(list) > 0 {
			out[rest] = list[len(list)-1]
		}
	}
	return out, nil
}

// Approval is a digest that was approved for a key of a kind.
type Approval struct{ Kind, Key, Digest string }

// Approve records that a digest was approved. It returns when that is on disk.
func (in *Installer) Approve(kind, key, digest string) error {
	return in.ApproveAll([]Approval{{kind, key, digest}})
}

// ApproveAll records several approvals: all of them or, also after a kill, none.
func (in *Installer) ApproveAll(list []Approval) error {
	for _, a := range list {
		if a.Kind == "" || a.Key == "" || a.Digest == "" {
			return core.Errorf(core.CodeInternal, "an approval needs a kind, a key and a digest")
		}
	}
	return in.changeApproved(func(all *approvals) {
		for _, a := range list {
			all.add(a.Kind, a.Key, a.Digest)
		}
	})
}

// The kinds of approvals of packages: without and with their install scripts.
const (
	approvedPackage = "package"
	approvedScripts = "package+scripts"
)

// ApprovePackage records that a tree was approved for a key, and whether its
// install scripts were: the last answer counts.
func (in *Installer) ApprovePackage(key, digest string, scripts bool) error {
	if key == "" || digest == "" {
		return core.Errorf(core.CodeInternal, "an approval needs a key and a digest")
	}
	yes, no := approvedPackage, approvedScripts
	if scripts {
		yes, no = no, yes
	}
	return in.changeApproved(func(a *approvals) {
		a.drop(no, key, digest)
		a.add(yes, key, digest)
	})
}

// PackageApproved reports whether a tree was approved on this machine for a key,
// and whether its install scripts were.
func (in *Installer) PackageApproved(key, digest string) (scripts, ok bool) {
	if in.Approved(approvedScripts, key, digest) {
		return true, true
	}
	return false, in.Approved(approvedPackage, key, digest)
}

// Forget drops all that was approved for a key, and for keys that begin with it
// and a zero byte.
func (in *Installer) Forget(key string) error {
	a, err := in.readApproved()
	if err == nil && !a.forget(key) {
		return nil
	}
	return in.changeApproved(func(a *approvals) { a.forget(key) })
}

// ForgetBelow drops all that was approved of a kind for keys that begin with
// prefix.
func (in *Installer) ForgetBelow(kind, prefix string) error {
	known, err := in.NewestBelow(kind, prefix)
	if err != nil || len(known) == 0 {
		return err
	}
	return in.changeApproved(func(a *approvals) {
		maps.DeleteFunc(a.Approved[kind], func(key string, _ []string) bool { return strings.HasPrefix(key, prefix) })
	})
}

func (a *approvals) add(kind, key, digest string) {
	if a.Approved[kind] == nil {
		a.Approved[kind] = map[string][]string{}
	}
	a.drop(kind, key, digest)
	list := append(a.Approved[kind][key], digest)
	a.Approved[kind][key] = list[max(0, len(list)-keepApproved):]
}

func (a *approvals) drop(kind, key, digest string) {
	list := slices.DeleteFunc(a.Approved[kind][key], func(d string) bool { return d == digest })
	if len(list) == 0 {
		delete(a.Approved[kind], key)
		return
	}
	a.Approved[kind][key] = list
}

// forget drops a key of all kinds and reports whether anything was there.
func (a *approvals) forget(key string) bool {
	had := false
	for _, keys := range a.Approved {
		maps.DeleteFunc(keys, func(k string, _ []string) bool {
			gone := k == key || strings.HasPrefix(k, key+"\x00")
			had = had || gone
			return gone
		})
	}
	return had
}

// changeApproved changes what was approved while no other process does. It
// returns when that is on disk.
func (in *Installer) changeApproved(change func(*approvals)) error {
	in.trustMu.Lock()
	defer in.trustMu.Unlock()
	unlock, err := in.lockTrust()
	if err != nil {
		return err
	}
	defer unlock()
	a, err := in.readApproved()
	if err != nil {
		return err
	}
	change(&a)
	raw, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode what was approved: %w", err)
	}
	return writeFile(in.trustPath(), append(raw, '\n'))
}

func (in *Installer) readApproved() (approvals, error) {
	a := approvals{Version: 1, Approved: map[string]map[string][]string{}}
	raw, err := os.ReadFile(in.trustPath())
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	switch {
	case err != nil:
		return a, core.Errorf(core.CodeInstallFailed, "%s cannot be read (%w); remove it to be asked again", in.trustPath(), err)
	case a.Version != 1:
		return a, core.Errorf(core.CodeStoreNewer, "%s has version %d, this pml knows 1; update pml", in.trustPath(), a.Version)
	case a.Approved == nil:
		a.Approved = map[string]map[string][]string{}
	}
	return a, nil
}

// How long writers of other processes are waited for: five seconds, where a
// write takes a few milliseconds.
const (
	lockTries = 500
	lockPause = 10 * time.Millisecond
)

// Exclusive keeps other processes of this home out while the caller changes a
// file that they change too. It waits some seconds; then it fails with
// core.CodeStoreBusy. What is approved cannot be recorded meanwhile.
func (in *Installer) Exclusive() (unlock func(), err error) { return in.lockTrust() }

// lockTrust keeps writers of what was approved out.
func (in *Installer) lockTrust() (unlock func(), err error) { return in.lock(in.trustPath()) }

// lock keeps writers of a file in other processes out. The lock ends with the
// process that holds it; its file, which stays, is beside the one it is for.
func (in *Installer) lock(of string) (unlock func(), err error) {
	file := of + ".lock"
	if err := os.MkdirAll(in.o.Home, 0o700); err != nil {
		return nil, diskError("make "+in.o.Home, err)
	}
	f, err := lockFile(file)
	if err != nil {
		return nil, core.Errorf(core.CodeStoreBusy, "another pml holds %s: %w; try again", file, err)
	}
	return func() {
		if err := f.Close(); err != nil {
			in.o.Logger.Warn("cannot release a lock", "file", file, "error", err)
		}
	}, nil
}
