//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package process

import "golang.org/x/term"

// canHide says that withoutEcho alone hides nothing here.
const canHide = false

// withoutEcho remembers the state of a terminal; reading a password changes it.
func withoutEcho(fd int) (restore func() error, err error) {
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	return func() error { return term.Restore(fd, before) }, nil
}

// forgetTyped does nothing: how is not known here.
func forgetTyped(int) {}
