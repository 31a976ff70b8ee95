//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package process

import "golang.org/x/sys/unix"

// The requests that read and set the state of a terminal.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// forgetTyped forgets what a terminal has got and nobody has read.
func forgetTyped(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
