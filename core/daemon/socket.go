package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/casys-ai/pml/core"
)

// maxSocket is how long the path of a socket may be: macOS takes 103 bytes,
// Linux 107.
const maxSocket = 100

// CheckSocket refuses what cannot be the path of a server's socket, with
// core.CodeInvalidConfig: who looks for the server would not find it there.
func CheckSocket(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return core.Errorf(core.CodeInvalidConfig, "the socket %s is not an absolute path", core.Visible(path, 200, false))
	case len(path) > maxSocket:
		return core.Errorf(core.CodeInvalidConfig, "the path of the socket %s has %d bytes, and a socket's may have %d; listen at a shorter one",
			core.Visible(path, 200, false), len(path), maxSocket)
	}
	return nil
}

// SocketPath is where the server of a home listens: pml.sock in it; where that
// is too long for a socket a name made from the home's path in XDG_RUNTIME_DIR,
// or in a folder in the temporary directory that belongs to this user alone.
// Errors: core.CodeInvalidConfig when such a folder belongs to somebody else.
func SocketPath(home string, environ func(string) (string, bool)) (string, error) {
	if path := filepath.Join(home, "pml.sock"); len(path) <= maxSocket {
		return path, nil
	}
	sum := sha256.Sum256([]byte(home))
	name := "pml-" + hex.EncodeToString(sum[:8]) + ".sock"
	if dir, _ := environ("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(filepath.Join(dir, name)) <= maxSocket && private(dir) == nil {
		return filepath.Join(dir, name), nil
	}
	temp, _ := environ("TMPDIR")
	mine := "pml-" + itoa(os.Getuid())
	if !filepath.IsAbs(temp) || len(filepath.Join(temp, mine, name)) > maxSocket {
		temp = "/tmp"
	}
	dir := filepath.Join(temp, mine)
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", core.Errorf(core.CodeInvalidConfig, "cannot make the folder of pml's socket: %w; set XDG_RUNTIME_DIR or a shorter PML_HOME", err)
	}
	if err := private(dir); err != nil {
		return "", core.Errorf(core.CodeInvalidConfig, "%s cannot hold pml's socket: %w; remove it, or set XDG_RUNTIME_DIR or a shorter PML_HOME", dir, err)
	}
	return filepath.Join(dir, name), nil
}
