package bolt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// sidecar is the lock of a store: a file next to the database that is never
// removed. The holder writes its name into it, and a mark after a failed sync.
type sidecar struct {
	lockDir, lockPath string
	label             []byte

	mu   sync.Mutex // guards side, for close
	side *os.File
	// readOnly: side was opened on a read-only file system. It is not kept, because
	// nothing could be noted in it once the file system can be written.
	readOnly bool
}

// labelLen is the size of the holder's name in the file.
const labelLen = 80

func newSidecar(opts Options) sidecar {
	label := fmt.Sprintf("%d %s\n", opts.PID, opts.Process)
	return sidecar{
		lockDir: opts.Dir, lockPath: dbPath(opts) + ".lock",
		label: fmt.Appendf(nil, "%-*.*s", labelLen, labelLen, label),
	}
}

func (o *sidecar) lockWith(lock func(*os.File) (bool, error)) (bool, error) {
	for {
		f, err := o.file()
		if err != nil {
			return false, err
		}
		if ok, err := lock(f); !ok || err != nil {
			return false, err
		}
		if sameFile(f, o.lockPath) {
			_, _ = f.WriteAt(o.label, 0) // only names the holder to others
			return true, nil
		}
		// Somebody removed the file: others lock a new one, so this lock excludes nobody.
		unlockFile(f)
		o.close()
	}
}

// file returns the lock file, which stays open: opening it for every operation
// would double the cost of a lock.
func (o *sidecar) file() (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.side != nil {
		return o.side, nil
	}
	if err := makeDir(o.lockDir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.lockPath, os.O_RDWR|os.O_CREATE, 0o600)
	o.readOnly = errors.Is(err, syscall.EROFS)
	if o.readOnly { // its lock serves all the same, for those who only read
		if there, openErr := os.Open(o.lockPath); openErr == nil {
			f, err = there, nil
		}
	}
	if err != nil {
		return nil, err
	}
	o.side = f
	return f, nil
}

// doubtMark is in the lock file, behind the label and the mark of use, from a failed
// sync of the database until one that succeeds: the next holder may read from the page
// cache what never reached the disk. It need not survive a restart of the machine, which
// empties that cache.
const (
	doubtMark = "unsynced\n"
	doubtAt   = labelLen + int64(len(usedMark))
)

// doubt sets the mark. The lock is held.
func (o *sidecar) doubt() error {
	f, err := o.file()
	if err == nil {
		_, err = f.WriteAt([]byte(doubtMark), doubtAt)
	}
	return err
}

// doubted reports whether the mark is set. The lock is held.
func (o *sidecar) doubted() (bool, error) {
	f, err := o.file()
	if err != nil {
		return false, err
	}
	var b [len(doubtMark)]byte
	n, err := f.ReadAt(b[:], doubtAt)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]) == doubtMark, err
}

// trust removes the mark. The lock is held.
func (o *sidecar) trust() error {
	f, err := o.file()
	if err == nil {
		err = f.Truncate(doubtAt)
	}
	return err
}

func (o *sidecar) unlock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.side == nil {
		return
	}
	unlockFile(o.side)
	if o.readOnly {
		_ = o.side.Close()
		o.side = nil
	}
}

func (o *sidecar) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.side != nil {
		_ = o.side.Close()
		o.side = nil
	}
}

func (o *sidecar) holder() string {
	raw, err := os.ReadFile(o.lockPath)
	pid, process, ok := strings.Cut(strings.TrimSpace(string(raw[:min(len(raw), labelLen)])), " ")
	if err != nil || !ok {
		return "another process"
	}
	return fmt.Sprintf("process %s (%s)", pid, process)
}
