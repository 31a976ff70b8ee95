package process

import "golang.org/x/sys/unix"

// The requests that read and set the state of a terminal.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// forgetTyped forgets what a terminal has got and nobody has read.
func forgetTyped(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
