package skiptest

import "syscall"

// noExec is the flag of a file system whose files no one runs (statfs(2): ST_NOEXEC).
const noExec = 8

// roomy reports whether a folder can hold what tests write and run: a gigabyte for each of some packages at once.
func roomy(dir string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return false
	}
	return fs.Flags&noExec == 0 && fs.Bavail*uint64(fs.Bsize) >= 4<<30
}
