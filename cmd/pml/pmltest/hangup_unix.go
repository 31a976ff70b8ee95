//go:build unix

package pmltest

import (
	"os"
	"os/signal"
	"syscall"
)

// heedHangup has the programs of tests under nohup heed a hangup, which the tests themselves ignore: what is started
// inherits that a signal is ignored, and not that it is caught.
func heedHangup() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}
