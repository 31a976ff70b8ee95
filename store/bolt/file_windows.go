package bolt

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// The lock covers one byte far beyond the content, because locks on Windows
// keep others from reading what they cover.
const lockOffset = 1 << 30

func region() *windows.Overlapped { return &windows.Overlapped{Offset: lockOffset} }

// lockFile waits for the exclusive lock of a file.
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, region())
}

// probeFile tries for a shared lock; false when somebody has it exclusively.
func probeFile(f *os.File) (bool, error) { return tryLock(f, 0) }

// tryLockFile is lockFile without waiting; false when somebody has the lock.
func tryLockFile(f *os.File) (bool, error) { return tryLock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

func tryLock(f *os.File, how uint32) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY|how, 0, 1, 0, region())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlockFile(f *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, region())
}

// syncDir does nothing: Windows has no such call and journals names itself.
func syncDir(string) error { return nil }
