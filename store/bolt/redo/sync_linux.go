package redo

import (
	"errors"
	"os"
	"syscall"
)

// syncData makes what was written to a file durable.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
