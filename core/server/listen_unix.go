//go:build unix

package server

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// posix says that modes and owners of files mean what they say.
const posix = true

func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Getuid()
}

// refused reports that nobody listens on a socket.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
