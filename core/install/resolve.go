package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/launch"
)

// rememberResolved is how long a resolution stands for its range. It is as
// long as a waiting run can be continued, so that what a person approved is
// still what would be installed.
const rememberResolved = 24 * time.Hour

// resolutions keeps npm's locks by their digest, and what ranges stood for.
type resolutions struct {
	dir   string
	clock core.Clock
}

func (r resolutions) lockPath(digest string) string {
	return filepath.Join(r.dir, shortDigest(digest, 64)+".json")
}

func (r resolutions) rangePath(spec launch.Spec) string {
	sum := sha256.Sum256([]byte(spec.Package + "@" + spec.Range))
	return filepath.Join(r.dir, "range-"+hex.EncodeToString(sum[:16])+".json")
}

// Resolve finds out what would be installed, installing nothing and running no
// package's code. With a pinned entry for the same package and range the answer is exactly
// that tree, without asking the network where the tree is known here; a tree
// that cannot be had any more is core.CodeIntegrityFailed. Other failures are
// core.CodeInstallFailed with npm's own words.
func (in *Installer) Resolve(ctx context.Context, spec launch.Spec, pinned *LockEntry) (Resolved, error) {
	if spec.Kind != launch.KindNPM {
		return Resolved{}, core.Errorf(core.CodeInternal, "a command of kind %q is not installed", spec.Kind)
	}
	if pinned != nil && pinned.Digest != "" && pinned.Package == spec.Package && pinned.Range == spec.Range {
		return in.resolvePinned(ctx, spec, *pinned)
	}
	if r, ok := in.resolved.recent(spec); ok {
		return r, nil
	}
	return in.Latest(ctx, spec)
}

// Latest is Resolve without a pin and without what was remembered: what the
// range stands for at the registry now. The answer is remembered, so that a
// Resolve that follows gives it too.
func (in *Installer) Latest(ctx context.Context, spec launch.Spec) (Resolved, error) {
	if spec.Kind != launch.KindNPM {
		return Resolved{}, core.Errorf(core.CodeInternal, "a command of kind %q is not installed", spec.Kind)
	}
	r, err := in.ask(ctx, spec, spec.Range, true)
	if err != nil {
		return Resolved{}, err
	}
	return r, errors.Join(in.resolved.remember(spec, r), in.Failures.forget(r.Digest))
}

// resolvePinned returns the tree of a lock entry from wherever it is known.
func (in *Installer) resolvePinned(ctx context.Context, spec launch.Spec, pinned LockEntry) (Resolved, error) {
	if len(pinned.NPM) > 0 {
		r, err := readNPMLock(pinned.NPM, spec.Package, spec.Range)
		if err != nil {
			return Resolved{}, err
		}
		if r.Digest != pinned.Digest || r.Version != pinned.Version {
			return Resolved{}, core.Errorf(core.CodeIntegrityFailed, "pml.lock contradicts itself about %s: its digest is not that of its packages; restore it from version control, or remove the entry", spec.Package)
		}
		r.SizeBytes = in.npm.unpackedSize(r.Packages, nil)
		return r, nil
	}
	for _, scripts := range []bool{false, true} {
		if i, ok, err := in.Installed(spec, pinned.Digest, scripts); err == nil && ok {
			if r, err := readLockFile(filepath.Join(i.Dir, "package-lock.json"), spec, pinned.Digest); err == nil {
				return r, nil
			}
		}
	}
	if r, err := readLockFile(in.resolved.lockPath(pinned.Digest), spec, pinned.Digest); err == nil {
		return r, nil
	}
	r, err := in.ask(ctx, spec, pinned.Version, false)
	if err != nil {
		return Resolved{}, err
	}
	if r.Digest != pinned.Digest {
		return Resolved{}, core.Errorf(core.CodeIntegrityFailed, "%s@%s is not what pml.lock pins any more: %s (pinned %s, now %s)",
			spec.Package, pinned.Version, differences(pinned.Packages, r.Packages), pinned.Digest, r.Digest)
	}
	return r, in.resolved.keep(r)
}

// ask lets npm resolve the package. fresh asks the registry also about what
// npm's own cache still takes for new.
func (in *Installer) ask(ctx context.Context, spec launch.Spec, rng string, fresh bool) (Resolved, error) {
	what := spec.Package + "@" + rng
	defer in.o.Progress("")
	dir, done, err := in.staging.make()
	if err != nil {
		return Resolved{}, err
	}
	defer done()
	args := []string{"install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--omit-lockfile-registry-resolved", "--package-lock=true"}
	if fresh {
		args = append(args, preferOnline)
	}
	fetched, err := in.npm.runIn(ctx, npmRun{
		dir: dir, silence: in.o.ResolveSilence, what: "cannot resolve " + what, args: args, live: in.o.Progress,
		doing: "asking the registry", subject: what,
	}, func(dir string) error { return writeManifest(dir, spec.Package, rng) })
	if err != nil {
		return Resolved{}, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return Resolved{}, core.Errorf(core.CodeInstallFailed, "npm wrote no lock for %s: %w", spec.Package, err)
	}
	r, err := readNPMLock(raw, spec.Package, spec.Range)
	if err != nil {
		return Resolved{}, err
	}
	r.SizeBytes = in.npm.unpackedSize(r.Packages, fetched)
	return r, nil
}

// writeManifest writes the package.json of a folder with one dependency.
func writeManifest(dir, name, rng string) error {
	raw, err := json.Marshal(map[string]any{"private": true, "dependencies": map[string]string{name: rng}})
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode package.json: %w", err)
	}
	return writeFile(filepath.Join(dir, "package.json"), raw)
}

// recent returns a resolution of the same package and range that is young
// enough to stand.
func (r resolutions) recent(spec launch.Spec) (Resolved, bool) {
	raw, err := os.ReadFile(r.rangePath(spec))
	var known knownRange
	if err != nil || json.Unmarshal(raw, &known) != nil {
		return Resolved{}, false
	}
	if age := r.clock.Now().Sub(known.At); age < 0 || age > rememberResolved {
		return Resolved{}, false
	}
	tree, err := readLockFile(r.lockPath(known.Digest), spec, known.Digest)
	tree.SizeBytes = known.Size
	return tree, err == nil
}

// knownRange is what a range stood for at a time.
type knownRange struct {
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
	Size   int64     `json:"size,omitempty"`
}

func (r resolutions) remember(spec launch.Spec, tree Resolved) error {
	if err := r.keep(tree); err != nil {
		return err
	}
	raw, err := json.Marshal(knownRange{Digest: tree.Digest, At: r.clock.Now().UTC(), Size: tree.SizeBytes})
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode a resolution: %w", err)
	}
	return writeFile(r.rangePath(spec), raw)
}

// keep keeps the lock of a tree under its digest.
func (r resolutions) keep(tree Resolved) error { return writeFile(r.lockPath(tree.Digest), tree.lock) }

// readLockFile reads a lock kept by pml and checks that it is the one of the
// digest.
func readLockFile(file string, spec launch.Spec, digest string) (Resolved, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Resolved{}, err
	}
	r, err := readNPMLock(raw, spec.Package, spec.Range)
	if err == nil && r.Digest != digest {
		err = errors.New("not the lock of the digest")
	}
	return r, err
}
