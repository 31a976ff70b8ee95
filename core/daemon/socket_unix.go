//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// private checks that a path is a folder of this user's that nobody else can
// enter, and not a link to one.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is no folder")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Getuid() {
		return errors.New("it belongs to another user")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("others may enter it (mode %o)", mode)
	}
	return nil
}
