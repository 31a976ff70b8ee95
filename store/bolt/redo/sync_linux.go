package redo

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncData makes what was written to a file durable.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Reserve gives a file its place on the disk up to so many bytes, where the file
// system can. The file does not get longer by that.
func Reserve(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
			return nil
		default:
			return err
		}
	}
}
