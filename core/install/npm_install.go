package install

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// receipt is what an installed tree says about itself.
type receipt struct {
	Version  int    `json:"version"`
	Name     string `json:"name"`
	Release  string `json:"release"`
	Digest   string `json:"digest"`
	TreeHash string `json:"tree_hash"`
	Scripts  bool   `json:"scripts,omitempty"`
}

// Install installs exactly the resolved tree and returns where it is. What is
// installed already is used; of several installers at once one wins and the
// others use its tree. allowScripts lets the packages' install scripts run; it
// means nothing for a tree without any. A kill at any moment leaves either the
// whole tree or garbage that a later call removes. Failures are
// core.CodeInstallFailed, or core.CodeIntegrityFailed when the registry serves
// other bytes than the pinned ones. progress is called at each step, and while it still
// lasts, at most every ten seconds; nil discards it.
func (in *Installer) Install(ctx context.Context, spec launch.Spec, r Resolved, allowScripts bool, progress func(string)) (Installed, error) {
	if progress == nil {
		progress = func(string) {}
	}
	defer in.o.Progress("")
	scripts := allowScripts && len(r.Scripts) > 0
	defer in.alone(r.Digest)()
	final := in.treePath(r.Name, r.Version, r.Digest, scripts)
	if i, ok, err := readReceipt(final, r.Digest); err != nil || ok {
		return i, err
	}
	if len(r.lock) == 0 {
		known, err := readLockFile(in.resolved.lockPath(r.Digest), spec, r.Digest)
		if err != nil {
			return Installed{}, core.Errorf(core.CodeInstallFailed, "%s@%s was resolved too long ago; resolve it again", r.Name, r.Version)
		}
		r.lock = known.lock
	}
	dir, done, err := in.staging.make()
	if err != nil {
		return Installed{}, err
	}
	defer done()
	made, err := os.Stat(dir)
	if err != nil {
		return Installed{}, diskError("read "+dir, err)
	}
	if err := in.fill(ctx, dir, r, scripts, progress); err != nil {
		return Installed{}, err
	}
	in.o.Progress("checking " + r.Name + "@" + r.Version)
	progress("checking " + r.Name + "@" + r.Version)
	if err := in.seal(dir, r, scripts); err != nil {
		return Installed{}, err
	}
	// After a long sleep another process may have taken the folder for garbage,
	// and npm made a new one of the same name with the rest of the files.
	if is, err := os.Stat(dir); err != nil || !os.SameFile(made, is) {
		return Installed{}, core.Errorf(core.CodeInstallFailed, "the folder that %s@%s was installed in was removed meanwhile; try again", r.Name, r.Version)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return Installed{}, diskError("make "+filepath.Dir(final), err)
	}
	if err := in.place(dir, final, r.Digest); err != nil {
		return Installed{}, err
	}
	i, ok, err := readReceipt(final, r.Digest)
	if err == nil && !ok {
		err = core.Errorf(core.CodeInstallFailed, "%s was removed while it was installed; try again", final)
	}
	return i, errors.Join(err, in.Failures.forget(r.Digest))
}

// alone makes installers of the same tree in this process wait for each other.
func (in *Installer) alone(digest string) (unlock func()) {
	in.mu.Lock()
	m := in.busy[digest]
	if m == nil {
		m = &sync.Mutex{}
		in.busy[digest] = m
	}
	in.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// fill lets npm install the locked tree into a folder.
func (in *Installer) fill(ctx context.Context, dir string, r Resolved, scripts bool, progress func(string)) error {
	prepare := func(dir string) error {
		return errors.Join(writeManifest(dir, r.Name, r.Version), writeFile(filepath.Join(dir, "package-lock.json"), r.lock))
	}
	ignore := "--ignore-scripts=true"
	if scripts {
		ignore = "--ignore-scripts=false"
	}
	here := 0
	for _, p := range r.Packages {
		if !p.Elsewhere {
			here++
		}
	}
	what := r.Name + "@" + r.Version
	run := npmRun{
		dir: dir, silence: in.o.InstallSilence, what: "cannot install " + what, progress: progress, live: in.o.Progress,
		doing: "installing", subject: what, packages: here,
		args: []string{"ci", ignore, "--no-audit", "--no-fund"},
	}
	_, err := in.npm.runIn(ctx, run, prepare)
	if errors.Is(err, errRefused) {
		progress("npm ci refused the lock of " + what + "; npm install is tried with it")
		err = in.fillFromLock(ctx, run, ignore, r, prepare)
	}
	if err != nil {
		return err
	}
	pkg, err := launch.Describe(dir, r.Name)
	if err != nil {
		return err
	}
	if pkg.Version != r.Version {
		return core.Errorf(core.CodeIntegrityFailed, "npm installed %s@%s where %s was approved", r.Name, core.Visible(pkg.Version, 60, false), r.Version)
	}
	return nil
}

// fillFromLock installs a lock that npm ci refuses although npm itself has made
// it: one of a package with an optional dependency that the registry lacks, so
// that the lock cannot name it. npm install takes it; what it has installed
// counts only if it is the tree of the digest.
func (in *Installer) fillFromLock(ctx context.Context, run npmRun, ignore string, r Resolved, prepare func(string) error) error {
	if err := emptyFolder(run.dir); err != nil {
		return err
	}
	run.args = []string{"install", ignore, "--no-audit", "--no-fund", "--package-lock=true"}
	if _, err := in.npm.runIn(ctx, run, prepare); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(run.dir, "package-lock.json"))
	if err != nil {
		return core.Errorf(core.CodeInstallFailed, "npm wrote no lock for %s@%s: %w", r.Name, r.Version, err)
	}
	got, err := readNPMLock(raw, r.Name, r.Version)
	if err != nil {
		return err
	}
	if got.Digest != r.Digest {
		return core.Errorf(core.CodeIntegrityFailed, "npm installed another tree of %s@%s than the one that was approved: %s", r.Name, r.Version, differences(r.Packages, got.Packages))
	}
	return nil
}

// seal hashes a tree, makes it durable and writes what Verify needs.
func (in *Installer) seal(dir string, r Resolved, scripts bool) error {
	files, err := listTree(dir)
	if err != nil {
		return diskError("read the installed files", err)
	}
	manifest, err := in.hashTree(dir, files, true)
	if err != nil {
		return diskError("read the installed files", err)
	}
	raw, err := json.Marshal(receipt{Version: 1, Name: r.Name, Release: r.Version, Digest: r.Digest, TreeHash: manifestHash(manifest), Scripts: scripts})
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode a receipt: %w", err)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, manifestFile), manifest),
		writeFile(filepath.Join(dir, statFile), []byte(manifestHash(manifest)+" "+statPrint(files))),
		writeFile(filepath.Join(dir, receiptFile), raw))
}

// Installed returns the tree of a digest, if it is here: the one whose install
// scripts were allowed to run or the one whose were not, as scripts says. The
// other one is other files, and another decision. Of a tree without any scripts
// there is only one, which is neither asked for nor made with scripts.
func (in *Installer) Installed(spec launch.Spec, digest string, scripts bool) (Installed, bool, error) {
	short := shortDigest(digest, 12)
	if spec.Kind != launch.KindNPM || short == "invalid" || !launch.ValidName(spec.Package) {
		return Installed{}, false, nil
	}
	parent := filepath.Join(in.o.Home, filepath.FromSlash(spec.Package))
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Installed{}, false, diskError("read "+parent, err)
	}
	end := "-" + short
	if scripts {
		end += scriptsSuffix
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), end) {
			continue
		}
		if i, ok, err := readReceipt(filepath.Join(parent, e.Name()), digest); ok || err != nil {
			return i, ok, err
		}
	}
	return Installed{}, false, nil
}

// readReceipt reads an installed tree's receipt; one of another digest is not
// it.
func readReceipt(dir, digest string) (Installed, bool, error) {
	raw, err := os.ReadFile(filepath.Join(dir, receiptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Installed{}, false, nil
	}
	var r receipt
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return Installed{}, false, core.Errorf(core.CodeIntegrityFailed, "the installed package in %s is damaged (%w); remove that folder to have it installed again", dir, err)
	}
	if r.Digest != digest {
		return Installed{}, false, nil
	}
	return Installed{Dir: dir, Name: r.Name, Version: r.Release, Digest: r.Digest, TreeHash: r.TreeHash}, true, nil
}

// Verify reports whether an installed tree still is what was installed; nil
// means that it is. As long as the file system says that no file was touched
// nothing is read; otherwise every file is hashed. Data that a server has added
// to its own folder is no change of what runs.
func (in *Installer) Verify(i Installed) (*Change, error) {
	files, err := listTree(i.Dir)
	if err != nil {
		return nil, diskError("read the installed package in "+i.Dir, err)
	}
	files = i.withoutData(files)
	stat := i.TreeHash + " " + statPrint(files)
	known, err := os.ReadFile(filepath.Join(i.Dir, statFile))
	if err == nil && string(known) == stat {
		return nil, nil
	}
	manifest, err := in.hashTree(i.Dir, files, false)
	if err != nil {
		return nil, diskError("read the installed package in "+i.Dir, err)
	}
	now := manifestHash(manifest)
	if now == i.TreeHash {
		if err := writeFile(filepath.Join(i.Dir, statFile), []byte(stat)); err != nil {
			in.o.Logger.Warn("cannot keep the stat cache of a package", "dir", i.Dir, "error", err)
		}
		return nil, nil
	}
	change := &Change{OldHash: i.TreeHash, NewHash: now}
	old, err := os.ReadFile(filepath.Join(i.Dir, manifestFile))
	if err != nil || manifestHash(old) != i.TreeHash {
		change.Files = []string{"the record of the files is damaged too; which of them changed is not known"}
		return change, nil
	}
	change.Files = compareManifests(old, manifest)
	return change, nil
}
