//go:build unix

package pmltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/skiptest"
)

// installs are the installations of this process, by their folder in testdata.
var installs sync.Map // string → func() (string, error)

// NPMPackages is a folder with what testdata/NAME/package-lock.json locks. It
// is installed once on a machine, as long as the lock is the same, by npm ci or
// by npm install.
func NPMPackages(t testing.TB, name, command string) string {
	t.Helper()
	skiptest.Long(t, "installs from the npm registry")
	npm := skiptest.Tool(t, "npm")
	source := filepath.Join("testdata", name) // from the root, see Main
	once, _ := installs.LoadOrStore(name, sync.OnceValues(func() (string, error) { return npmInstall(npm, source, command) }))
	dir, err := once.(func() (string, error))()
	if err != nil {
		skiptest.Missing(t, "needs the npm registry: "+err.Error())
	}
	return dir
}

// npmInstall installs what a folder locks into the cache of the user. Two that
// do it at the same time install twice, and the second keeps the first's.
func npmInstall(npm, source, command string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		files[name] = raw
		digest.Write(raw)
	}
	dir := filepath.Join(cache, "pml-test", hex.EncodeToString(digest.Sum(nil)[:10]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "new-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // it is gone when it was installed
	for name, raw := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), raw, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, command, "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}
