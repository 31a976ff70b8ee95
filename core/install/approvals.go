package install

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Approvals are what was approved on this machine. They are safe for concurrent
// use, and any number of processes may use the same home.
type Approvals struct{ file sharedFile }

// approvals is the content of the file of what was approved on this machine: by kind and key
// the digests, oldest first.
type approvals struct {
	Version  int                            `json:"version"`
	Approved map[string]map[string][]string `json:"approved"`
}

// keepApproved is how many digests of one key are remembered, so that going
// back to the version before asks nothing.
const keepApproved = 20

// Approved reports whether a digest was approved on this machine for a key of
// a kind. A record that cannot be read approves nothing.
func (a *Approvals) Approved(kind, key, digest string) bool {
	known, err := a.read()
	if err != nil {
		a.file.log.Warn("cannot read what was approved on this machine", "error", err)
		return false
	}
	return digest != "" && slices.Contains(known.Approved[kind][key], digest)
}

// Newest returns the digest that was approved last on this machine for a key of
// a kind, empty when none was or the record cannot be read.
func (a *Approvals) Newest(kind, key string) string {
	known, err := a.read()
	if err != nil {
		a.file.log.Warn("cannot read what was approved on this machine", "error", err)
		return ""
	}
	list := known.Approved[kind][key]
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// NewestBelow returns, by the rest of their keys, the digests that were approved
// last for all keys of a kind that begin with prefix. A record that cannot be
// read is an error: that nothing is known must not look like nothing there.
func (a *Approvals) NewestBelow(kind, prefix string) (map[string]string, error) {
	known, err := a.read()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for key, list := range known.Approved[kind] {
		if rest, ok := strings.CutPrefix(key, prefix); ok && len(list) > 0 {
			out[rest] = list[len(list)-1]
		}
	}
	return out, nil
}

// Approval is a digest that was approved for a key of a kind.
type Approval struct{ Kind, Key, Digest string }

// Approve records that a digest was approved. It returns when that is on disk.
func (a *Approvals) Approve(kind, key, digest string) error {
	return a.ApproveAll([]Approval{{kind, key, digest}})
}

// ApproveAll records several approvals: all of them or, also after a kill, none.
func (a *Approvals) ApproveAll(list []Approval) error {
	for _, one := range list {
		if one.Kind == "" || one.Key == "" || one.Digest == "" {
			return core.Errorf(core.CodeInternal, "an approval needs a kind, a key and a digest")
		}
	}
	return a.change(func(all *approvals) {
		for _, one := range list {
			all.add(one.Kind, one.Key, one.Digest)
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
func (a *Approvals) ApprovePackage(key, digest string, scripts bool) error {
	if key == "" || digest == "" {
		return core.Errorf(core.CodeInternal, "an approval needs a key and a digest")
	}
	yes, no := approvedPackage, approvedScripts
	if scripts {
		yes, no = no, yes
	}
	return a.change(func(all *approvals) {
		all.drop(no, key, digest)
		all.add(yes, key, digest)
	})
}

// PackageApproved reports whether a tree was approved on this machine for a key,
// and whether its install scripts were.
func (a *Approvals) PackageApproved(key, digest string) (scripts, ok bool) {
	if a.Approved(approvedScripts, key, digest) {
		return true, true
	}
	return false, a.Approved(approvedPackage, key, digest)
}

// Forget drops all that was approved for a key, and for keys that begin with it
// and a zero byte.
func (a *Approvals) Forget(key string) error {
	known, err := a.read()
	if err == nil && !known.forget(key) {
		return nil
	}
	return a.change(func(all *approvals) { all.forget(key) })
}

// ForgetBelow drops all that was approved of a kind for keys that begin with
// prefix.
func (a *Approvals) ForgetBelow(kind, prefix string) error {
	known, err := a.NewestBelow(kind, prefix)
	if err != nil || len(known) == 0 {
		return err
	}
	return a.change(func(all *approvals) {
		maps.DeleteFunc(all.Approved[kind], func(key string, _ []string) bool { return strings.HasPrefix(key, prefix) })
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

// change changes what was approved while no other process does. It returns when
// that is on disk.
func (a *Approvals) change(change func(*approvals)) error {
	return a.file.change(func() error {
		known, err := a.read()
		if err != nil {
			return err
		}
		change(&known)
		raw, err := json.MarshalIndent(known, "", "  ")
		if err != nil {
			return core.Errorf(core.CodeInternal, "cannot encode what was approved: %w", err)
		}
		return writeFile(a.file.path, append(raw, '\n'))
	})
}

func (a *Approvals) read() (approvals, error) {
	known := approvals{Version: 1, Approved: map[string]map[string][]string{}}
	raw, err := os.ReadFile(a.file.path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	switch {
	case err != nil:
		return known, core.Errorf(core.CodeInstallFailed, "%s cannot be read (%w); remove it to be asked again", a.file.path, err)
	case known.Version != 1:
		return known, core.Errorf(core.CodeStoreNewer, "%s has version %d, this pml knows 1; update pml", a.file.path, known.Version)
	case known.Approved == nil:
		known.Approved = map[string]map[string][]string{}
	}
	return known, nil
}

// Exclusive keeps other processes of this home out while the caller changes a
// file that they change too. It waits some seconds; then it fails with
// core.CodeStoreBusy. What is approved cannot be recorded meanwhile.
func (a *Approvals) Exclusive() (unlock func(), err error) { return a.file.lock() }
