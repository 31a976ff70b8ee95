//go:build unix

package install_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// The disk gets full while a package is installed: the error says so, nothing
// half of it is there, and with space again it works.
func TestRegistry_FullDisk(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "has npm install packages; others do, too")
	needNPM(t)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk).CombinedOutput(); err != nil {
		skiptest.Missing(t, fmt.Sprintf("cannot mount a small file system: %v %s", err, out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	reg := registrytest.New(t)
	server := registrytest.Server("big", "1.0.0")
	server.Files["data.txt"] = noise(2 << 20)
	reg.Publish(server)
	home := filepath.Join(disk, "home")
	in := onRegistry(home, reg.Env(os.Environ()))
	spec := specOf(t, "npx -y big")
	r, err := in.Resolve(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = in.Install(t.Context(), spec, r, false, nil)
	t.Log(err)
	if core.CodeOf(err) != core.CodeInstallFailed || !strings.Contains(err.Error(), "cannot install big@1.0.0") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%s: %v", core.CodeOf(err), err)
	}
	nothingInstalled(t, in, home, spec, r.Digest)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	_, i := mustInstall(t, in, spec)
	if c, err := in.Verify(i); c != nil || err != nil {
		t.Error(c, err)
	}
}

// noise is text that does not compress.
func noise(size int) string {
	var b strings.Builder
	for n := 0; b.Len() < size; n++ {
		sum := sha256.Sum256(fmt.Append(nil, n))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()
}
