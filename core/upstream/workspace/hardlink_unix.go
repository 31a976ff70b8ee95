//go:build unix

package workspace

import (
	"io/fs"
	"syscall"
)

// namesOf is how many names a file has.
func namesOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
