package bolt

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID names the run of the system since it was started. What was written
// before another one, and not synced, may be lost.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// mountID names the mount that a file is on, where the system tells it. A disk that
// was pulled out and put in again is another mount.
func mountID(path string) string {
	const which = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // the former alone is used again after an unmount
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, which, &st); err != nil || st.Mask&which == 0 {
		return ""
	}
	return strconv.FormatUint(st.Mnt_id, 10)
}
