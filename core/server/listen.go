package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/casys-ai/pml/core"
)

// ListenUnix listens on a unix socket that only this user may open. A file that
// an earlier server left behind is replaced; one that somebody answers on is
// core.CodeStoreBusy.
func ListenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "the folder of the socket %s cannot be made: %w", path, err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "cannot listen on the socket %s: %w; name another one with --listen", path, err)
	}
	unix := &socket{UnixListener: ln.(*net.UnixListener), path: path}
	unix.SetUnlinkOnClose(false)
	err = os.Chmod(path, 0o600)
	if err == nil {
		unix.made, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(core.Errorf(core.CodeInvalidConfig, "cannot keep others from the socket %s: %w", path, err), ln.Close())
	}
	return unix, nil
}

// private refuses a folder in which others could put a socket of their own.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return core.Errorf(core.CodeInvalidConfig, "the folder of the socket %s cannot be read: %w", dir, err)
	}
	if !ours(info) {
		return core.Errorf(core.CodeInvalidConfig, "the folder %s belongs to another user; put the socket into one of yours with --listen", dir)
	}
	if info.Mode().Perm()&0o022 != 0 && posix {
		return core.Errorf(core.CodeInvalidConfig, "others can write to %s, so they could take the place of the socket; take that from them", dir).
			WithNext("chmod", "go-w", dir)
	}
	return nil
}

// removeStale removes a socket that nobody answers on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.Errorf(core.CodeInvalidConfig, "the socket %s cannot be looked at: %w", path, err)
	}
	if posix && info.Mode()&fs.ModeSocket == 0 {
		return core.Errorf(core.CodeInvalidConfig, "%s is there and is no socket; move it away, or name another place with --listen", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.Close()
		return core.Errorf(core.CodeStoreBusy, "another pml server answers on %s", path).WithNext("pml", "server", "status")
	}
	if !refused(err) {
		return core.Errorf(core.CodeStoreBusy, "it is not clear whether a server answers on %s: %w", path, err).WithNext("pml", "server", "status")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.CodeInvalidConfig, "the socket %s that an earlier server left cannot be removed: %w", path, err)
	}
	return nil
}

// socket removes its file when it is closed, unless another server has put its
// own there.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Close removes the socket file, if it is still this one.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path) // left behind, the next server removes it
	}
	return s.UnixListener.Close()
}

// ListenTCP listens on host:port.
func ListenTCP(address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "cannot listen on %s: %w; choose another address with --listen", core.Visible(address, 200, false), err)
	}
	return ln, nil
}

// TLS is how callers over TCP are spoken to, with a certificate in files; nil without.
func TLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, core.Errorf(core.CodeInvalidConfig, "the certificate %s and its key %s cannot be used: %w", core.Visible(cert, 200, false), core.Visible(key, 200, false), err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, nil
}
