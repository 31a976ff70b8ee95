//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package keeper

import "golang.org/x/sys/unix"

// The requests that read and set the settings of a terminal.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
