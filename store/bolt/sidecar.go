package bolt

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// sidecar is the lock of a store: a file beside the database that is never
// removed. Whoever has it writes into it who that is.
type sidecar struct {
	lockDir, lockPath string
	label             []byte

	mu   sync.Mutex // guards side, for close
	side *os.File
}

// labelLen is the room for the name of the holder.
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
		// Somebody removed the file: what we have is a lock that nobody sees.
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
	if err != nil {
		return nil, err
	}
	o.side = f
	return f, nil
}

func (o *sidecar) unlock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.side != nil {
		unlockFile(o.side)
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
