//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package process

import "golang.org/x/sys/unix"

// canHide says that withoutEcho hides what is typed.
const canHide = true

// withoutEcho makes a terminal show nothing of what is typed; lines and signals
// stay as they are. restore takes that back.
func withoutEcho(fd int) (restore func() error, err error) {
	state, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	before := *state
	state.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, state); err != nil {
		return nil, err
	}
	return func() error { return unix.IoctlSetTermios(fd, setTermios, &before) }, nil
}
