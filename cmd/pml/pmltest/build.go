package pmltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/casys-ai/pml/core/skiptest"
)

// The most that a build may take, and how long a program is kept that no test has asked for.
const (
	buildTime = 10 * time.Minute
	keepTime  = 24 * time.Hour
)

// PML returns the path of pml, built with the race detector if the tests are.
func PML(t testing.TB, flags ...string) string {
	t.Helper()
	if skiptest.Race {
		flags = append(flags, "-race")
	}
	return Build(t, "./cmd/pml", flags...)
}

// Recorder returns the path of testdata/recorder, a server that logs its calls.
func Recorder(t testing.TB) string {
	t.Helper()
	return Build(t, "./testdata/recorder")
}

// built holds a *sync.Once-like function for each command line of go build.
var built sync.Map

// Build builds a command of this module once and returns its path.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	build, _ := built.LoadOrStore(pkg+" "+strings.Join(flags, " "), sync.OnceValues(func() (string, error) { return buildShared(pkg, flags) }))
	bin, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// buildShared builds a command in a folder that all test binaries of this checkout share: the go command links
// again only if something has changed. The tests run a link to it, which a build of a later test leaves alone: the go
// command replaces a program, and does not write into it.
func buildShared(pkg string, flags []string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	look(root)
	dir, err := cacheDir(root, pkg, flags)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	lock := flock.New(filepath.Join(dir, "lock"))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	defer lock.Close()
	bin := filepath.Join(dir, path.Base(pkg)+".exe") // Windows wants the suffix, the others do not mind
	args := append([]string{"build", "-buildvcs=false", "-o", bin}, flags...)
	if out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return linkByStamp(dir, bin)
}

// look reads every folder of the module: go test notes what the tests look at, and runs them again when a file
// there is another one, although no test package imports the program.
func look(root string) {
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		return nil // what is gone by now is not read
	})
}

// cacheDir makes the folder in which a command of a checkout is built.
func cacheDir(root, pkg string, flags []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil { // without a home
		cache = os.TempDir()
	}
	key := sha256.Sum256([]byte(root + "\n" + pkg + "\n" + strings.Join(flags, "\n")))
	dir := filepath.Join(cache, "pml-test", path.Base(pkg)+"-"+hex.EncodeToString(key[:6]))
	return dir, os.MkdirAll(dir, 0o755)
}

// linkByStamp gives a program a path that tells when it was linked, and removes those that nobody has asked for lately.
func linkByStamp(dir, bin string) (string, error) {
	linked, err := os.Stat(bin)
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, strconv.FormatInt(linked.ModTime().UnixNano(), 36))
	if err := os.MkdirAll(own, 0o755); err != nil {
		return "", err
	}
	target := filepath.Join(own, filepath.Base(bin))
	if err := os.Link(bin, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	now := time.Now()
	_ = os.Chtimes(own, now, now) // only so that it is kept
	old, _ := filepath.Glob(filepath.Join(dir, "*", filepath.Base(bin)))
	for _, file := range old {
		if info, err := os.Stat(filepath.Dir(file)); err == nil && now.Sub(info.ModTime()) > keepTime {
			_ = os.RemoveAll(filepath.Dir(file)) // the next one tries again
		}
	}
	return target, nil
}
