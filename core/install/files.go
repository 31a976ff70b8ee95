package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

// Below the home of the packages:
//
//	NAME/VERSION-DIGEST/   an installed tree, complete from the moment it is there
//	.staging/TIME-RANDOM/  one that is being made; garbage when its maker died
//	.resolved/             npm's locks by digest, and what ranges stood for
//	.approved.json         what was approved on this machine
//	.used.json             who uses which tree
//	.tools/                definitions of tools by digest
//	.hashed/               hashes of files outside, by path, with their stat

// minStale is how old a staging folder is at least before it is garbage: longer
// than any npm run may take, so that age alone decides and no lock is needed.
const minStale = 30 * time.Minute

// dead ends the name of a folder that is being removed.
const dead = ".dead"

func (in *Installer) lockPath(digest string) string {
	return filepath.Join(in.o.Home, ".resolved", shortDigest(digest, 64)+".json")
}

func (in *Installer) rangePath(spec Spec) string {
	sum := sha256.Sum256([]byte(spec.Package + "@" + spec.Range))
	return filepath.Join(in.o.Home, ".resolved", "range-"+hex.EncodeToString(sum[:16])+".json")
}

// treePath is the folder of an installed tree.
func (in *Installer) treePath(name, version, digest string, scripts bool) string {
	base := strings.Map(func(r rune) rune {
		if wordRune(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_' // build metadata: the digest tells trees apart
	}, version) + "-" + shortDigest(digest, 12)
	if scripts {
		base += scriptsSuffix
	}
	return filepath.Join(in.o.Home, filepath.FromSlash(name), base)
}

// scriptsSuffix marks a tree whose install scripts ran: other files, and
// another decision.
const scriptsSuffix = "-scripts"

// shortDigest returns the first n hex digits of a digest, or "invalid".
func shortDigest(digest string, n int) string {
	hexes := strings.TrimPrefix(digest, "sha256:")
	if len(hexes) != 64 || strings.Trim(hexes, "0123456789abcdef") != "" {
		return "invalid"
	}
	return hexes[:n]
}

// stage makes a staging folder and removes those that dead processes left. The
// folder returned is inside of what done removes.
func (in *Installer) stage() (dir string, done func(), err error) {
	base := filepath.Join(in.o.Home, ".staging")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", nil, diskError("make a folder to install in", err)
	}
	in.sweep(base)
	// The name says since when, so that a folder never is there without its age.
	own, err := os.MkdirTemp(base, strconv.FormatInt(in.o.Clock.Now().Unix(), 10)+"-")
	if err != nil {
		return "", nil, diskError("make a folder to install in", err)
	}
	done = func() {
		if err := os.RemoveAll(own); err != nil {
			in.o.Logger.Warn("cannot remove a staging folder", "dir", own, "error", err)
		}
	}
	dir = filepath.Join(own, "tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		done()
		return "", nil, diskError("make a folder to install in", err)
	}
	return dir, done, nil
}

// sweep removes staging folders that are older than any installation.
func (in *Installer) sweep(base string) {
	for _, dir := range in.stale(base) {
		if err := discard(dir); err != nil {
			in.o.Logger.Warn("cannot remove a stale staging folder", "dir", dir, "error", err)
		}
	}
}

// stale returns the staging folders that nobody fills any more.
func (in *Installer) stale(base string) []string {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	limit := max(minStale, 2*(in.o.ResolveTimeout+in.o.InstallTimeout))
	var out []string
	now := in.o.Clock.Now()
	for _, e := range entries {
		seconds, _, _ := strings.Cut(e.Name(), "-")
		started, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			continue // not one of ours
		}
		if strings.HasSuffix(e.Name(), dead) || now.Sub(time.Unix(started, 0)) > limit {
			out = append(out, filepath.Join(base, e.Name()))
		}
	}
	return out
}

// discard removes a folder. It is renamed first: should its maker live after
// all (a machine that slept), it finds nothing rather than half of its files.
func discard(dir string) error {
	gone := dir
	if !strings.HasSuffix(dir, dead) {
		gone += dead
		if err := os.Rename(dir, gone); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // another process was faster
			}
			return err
		}
	}
	return os.RemoveAll(gone)
}

// writeFile replaces a file of the home as a whole.
func writeFile(file string, data []byte) error {
	return replaceFile(file, data, 0o600)
}

func replaceFile(file string, data []byte, mode fs.FileMode) error {
	if err := atomicfile.Write(file, data, mode); err != nil {
		return diskError("write "+file, err)
	}
	return nil
}

// syncDir makes a rename in a folder durable.
func syncDir(dir string) error {
	if err := atomicfile.SyncDir(dir); err != nil {
		return diskError("open "+dir, err)
	}
	return nil
}

func diskError(what string, err error) *core.Error {
	return core.Errorf(core.CodeInstallFailed, "cannot %s: %w; check the permissions and the free space there", what, err)
}
