package install

import (
	"context"
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

// usage is the file of who uses which tree: one file, so that a user is never
// seen with two trees or, in the middle of a move, with none.
type usage struct {
	Version int                   `json:"version"`
	Trees   map[string]*treeUsage `json:"trees"` // by slash path below the home
}

type treeUsage struct {
	Users []string  `json:"users,omitempty"` // sorted
	Last  time.Time `json:"last"`
}

// restBefore is how long a tree that nobody uses is kept: for processes that
// still run it, and for whoever goes back to it.
const restBefore = 14 * 24 * time.Hour

// renewAfter is how old the record of a use may get before it is written anew.
const renewAfter = 24 * time.Hour

// users is the record of who uses which tree.
type users struct{ file sharedFile }

// Use records that somebody (a pml.lock and the name of a server in it) runs an
// installed tree, so that Collect keeps it, and no other one any more. It may
// be called on each start: what is recorded already is not written again. Call
// it before the tree is verified: one that was collected meanwhile is
// core.CodeInstallFailed, and from then on it stays.
func (in *Installer) Use(i Installed, by string) error {
	tree, err := in.treeKey(i)
	if err != nil {
		return err
	}
	if u, err := in.users.read(); err == nil && u.Trees[tree] != nil && slices.Contains(u.Trees[tree].Users, by) {
		if age := in.o.Clock.Now().Sub(u.Trees[tree].Last); age >= 0 && age < renewAfter {
			return nil
		}
	}
	return in.users.change(func(u *usage) error {
		if _, ok, err := readReceipt(i.Dir, i.Digest); err != nil || !ok {
			return errors.Join(core.Errorf(core.CodeInstallFailed, "%s is not installed any more; it is installed again on the next call", i.Dir), err)
		}
		u.release(by)
		t := u.tree(tree)
		t.Users = append(t.Users, by)
		slices.Sort(t.Users)
		t.Last = in.o.Clock.Now().UTC()
		return nil
	})
}

// Release forgets what somebody uses. The tree rests from now on.
func (in *Installer) Release(by string) error {
	u, err := in.users.read()
	if err == nil && !u.release(by) {
		return nil
	}
	return in.users.change(func(u *usage) error {
		for _, t := range u.Trees {
			if slices.Contains(t.Users, by) {
				t.Last = in.o.Clock.Now().UTC()
			}
		}
		u.release(by)
		return nil
	})
}

// Users returns who uses an installed tree, sorted.
func (in *Installer) Users(i Installed) ([]string, error) {
	tree, err := in.treeKey(i)
	if err != nil {
		return nil, err
	}
	u, err := in.users.read()
	if err != nil || u.Trees[tree] == nil {
		return nil, err
	}
	return u.Trees[tree].Users, nil
}

// Collected is a folder that was removed: an installed tree, or what a kill
// left behind.
type Collected struct {
	Dir   string
	Bytes int64
}

// Collect removes trees that nobody has recorded to use, or whose users have
// all gone on to others, and that have rested long enough (two weeks) for a
// process that still runs them to have ended; and what kills have left behind
// in staging. Trees of which nothing is recorded stay. Kept definitions of tools
// and hashes of files that were of no use for half a year go too, unmentioned.
// What was removed is returned also beside an error.
func (in *Installer) Collect(ctx context.Context) ([]Collected, error) {
	doomed, err := in.retire(ctx, func(t *treeUsage) (bool, error) {
		return len(t.Users) == 0 && in.o.Clock.Now().Sub(t.Last) > restBefore, nil
	}, "")
	for _, dir := range in.staging.stale() {
		if !slices.ContainsFunc(doomed, func(d retired) bool { return d.now == dir }) {
			doomed = append(doomed, retired{was: dir, now: dir})
		}
	}
	removed, removeErr := in.removeAll(ctx, doomed)
	return removed, errors.Join(err, removeErr, in.forgetUnread(ctx))
}

// Remove removes an installed tree at once, without the rest that Collect gives
// it. One that others have recorded to use is core.CodeInvalidArguments naming
// them; one that is not there is no error and has no bytes. A process that
// still runs it may fail when it reads another file.
func (in *Installer) Remove(i Installed) (Collected, error) {
	tree, err := in.treeKey(i)
	if err != nil {
		return Collected{}, err
	}
	doomed, err := in.retire(context.Background(), func(t *treeUsage) (bool, error) {
		if len(t.Users) > 0 {
			return false, core.Errorf(core.CodeInvalidArguments, "%s@%s is still used by %s; remove those servers first",
				i.Name, i.Version, core.Visible(strings.Join(t.Users, ", "), 400, false))
		}
		return true, nil
	}, tree)
	if err != nil {
		return Collected{}, err
	}
	removed, err := in.removeAll(context.Background(), doomed)
	if len(removed) == 0 {
		return Collected{Dir: i.Dir}, err
	}
	return removed[0], err
}

// retired is a folder that is on its way out: where it was and is.
type retired struct{ was, now string }

// retire moves trees out of use, each in one step: only (when it is named), or
// all of which something is recorded. A kill after the step leaves a folder in
// staging that counts as dead.
func (in *Installer) retire(ctx context.Context, when func(*treeUsage) (bool, error), only string) ([]retired, error) {
	var out []retired
	err := in.users.change(func(u *usage) error {
		keys := slices.Sorted(maps.Keys(u.Trees))
		if only != "" {
			u.tree(only)
			keys = []string{only}
		}
		var failed error
		for _, key := range keys {
			if ctx.Err() != nil {
				return errors.Join(failed, core.Errorf(core.CodeCancelled, "stopped while packages were removed: %w", context.Cause(ctx)))
			}
			now, err := when(u.Trees[key])
			if err != nil {
				return err
			}
			if !now {
				continue
			}
			r, err := in.staging.moveAway(in.o.Home, key)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			if r.now != "" {
				out = append(out, r)
			}
			delete(u.Trees, key)
		}
		return failed
	})
	return out, err
}

// removeAll removes folders for good.
func (in *Installer) removeAll(ctx context.Context, doomed []retired) (removed []Collected, err error) {
	for _, d := range doomed {
		if ctx.Err() != nil {
			return removed, core.Errorf(core.CodeCancelled, "stopped while packages were removed: %w", context.Cause(ctx))
		}
		bytes := folderSize(d.now)
		if failed := discard(d.now); failed != nil {
			err = errors.Join(err, diskError("remove "+d.now, failed))
			continue
		}
		removed = append(removed, Collected{Dir: d.was, Bytes: bytes})
	}
	return removed, err
}

// folderSize adds up the sizes of the files in a folder, as far as they can be
// seen.
func folderSize(dir string) int64 {
	var sum int64
	// An error ends nothing but the walk: the sum is for a person.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be read is left out of the sum
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// treeKey names a tree in the record.
func (in *Installer) treeKey(i Installed) (string, error) {
	rel, err := filepath.Rel(in.o.Home, i.Dir)
	if err != nil || !filepath.IsLocal(rel) || rel == "." || strings.HasPrefix(rel, ".") {
		return "", core.Errorf(core.CodeInternal, "%s is not an installed package of %s", core.Visible(i.Dir, 300, false), in.o.Home)
	}
	return filepath.ToSlash(rel), nil
}

// place moves a finished tree to where it is used, or says that the place is
// taken by one that is as good. That it is new is recorded first, so that it is
// collected when nobody ever uses it, and not at once because of an older one.
func (in *Installer) place(dir, final, digest string) error {
	tree, err := in.treeKey(Installed{Dir: final})
	if err != nil {
		return err
	}
	err = in.users.change(func(u *usage) error {
		u.tree(tree).Last = in.o.Clock.Now().UTC()
		return nil
	})
	if err != nil {
		return err
	}
	moveErr := os.Rename(dir, final)
	if moveErr == nil {
		return syncDir(filepath.Dir(final))
	}
	return in.users.change(func(*usage) error {
		// Another process was faster: its tree has the same digest.
		if _, ok, err := readReceipt(final, digest); ok || err != nil {
			return err
		}
		if _, err := os.Lstat(final); err != nil {
			return diskError("move the installed package to "+final, moveErr)
		}
		// A tree without a receipt is what somebody left of one.
		away, err := in.staging.moveAway(in.o.Home, tree)
		if err != nil {
			return err
		}
		if err := os.Rename(dir, final); err != nil {
			return diskError("move the installed package to "+final, err)
		}
		if away.now != "" {
			err = discard(away.now)
		}
		if err != nil {
			in.o.Logger.Warn("cannot remove a damaged package", "dir", away.now, "error", err)
		}
		return syncDir(filepath.Dir(final))
	})
}

// tree returns the record of a tree, made when there is none.
func (u *usage) tree(key string) *treeUsage {
	if u.Trees[key] == nil {
		u.Trees[key] = &treeUsage{}
	}
	return u.Trees[key]
}

// release takes a user away from all trees and reports whether it had one.
func (u *usage) release(by string) bool {
	had := false
	for _, t := range u.Trees {
		n := len(t.Users)
		t.Users = slices.DeleteFunc(t.Users, func(s string) bool { return s == by })
		had = had || len(t.Users) < n
	}
	return had
}

// change changes the record while no other process does.
func (r *users) change(change func(*usage) error) error {
	return r.file.change(func() error {
		u, err := r.read()
		if err != nil {
			return err
		}
		// What was changed before an error is written too: trees may be gone.
		failed := change(&u)
		raw, err := json.MarshalIndent(u, "", "  ")
		if err != nil {
			return core.Errorf(core.CodeInternal, "cannot encode who uses the packages: %w", err)
		}
		return errors.Join(failed, writeFile(r.file.path, append(raw, '\n')))
	})
}

func (r *users) read() (usage, error) {
	u := usage{Version: 1}
	raw, err := os.ReadFile(r.file.path)
	if err == nil {
		err = json.Unmarshal(raw, &u)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return u, core.Errorf(core.CodeInstallFailed, "%s cannot be read (%w); remove it: nothing is collected then of what is installed now", r.file.path, err)
	case u.Version != 1:
		return u, core.Errorf(core.CodeStoreNewer, "%s has version %d, this pml knows 1; update pml", r.file.path, u.Version)
	}
	if u.Trees == nil {
		u.Trees = map[string]*treeUsage{}
	}
	for key, t := range u.Trees {
		if t == nil || !filepath.IsLocal(filepath.FromSlash(key)) || strings.HasPrefix(key, ".") {
			delete(u.Trees, key) // never a path outside
		}
	}
	return u, nil
}
