//go:build unix

package env

import (
	"io/fs"
	"os"
	"syscall"
)

func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}

// othersWrite reports whether somebody else can write to a folder. A group with the
// number of the owner is the owner's own, as most systems make one for each user.
func othersWrite(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	perm := info.Mode().Perm()
	return perm&0o002 != 0 || perm&0o020 != 0 && (!ok || st.Gid != st.Uid)
}

// names is under how many names a file is known.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink)
}
