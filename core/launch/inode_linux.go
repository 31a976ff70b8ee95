package launch

import (
	"io/fs"
	"strconv"
	"syscall"
)

// AppendInode adds what only the system's own stat says: the inode, and the
// change time, which a program cannot set back as it can the modification time.
func AppendInode(b []byte, info fs.FileInfo) []byte {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return b
	}
	b = strconv.AppendUint(b, st.Ino, 10)
	b = append(b, ' ')
	return strconv.AppendInt(b, st.Ctim.Nano(), 10)
}
