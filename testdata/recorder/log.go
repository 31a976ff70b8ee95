package main

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// entry is one line of the log. N numbers the calls of the file from 1, over
// all processes that write it; the line of the end has the number of its start.
type entry struct {
	N      int             `json:"n"`
	Event  string          `json:"event"` // start, end, error, cancelled
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	PID    int             `json:"pid"`
	At     time.Time       `json:"at"`
}

// callLog is one log file. What it knows comes from the file alone: several
// processes write it, and any of them may be killed and started again.
type callLog struct {
	path string

	mu     sync.Mutex
	offset int64
	torn   bool // the file goes on after offset, with a line that has no end
	calls  int
	incs   map[string]int
}

// start appends the start of a call. For inc it also returns how many calls of
// inc with this key the file has, this one included.
func (l *callLog) start(c call) (n, count int, err error) {
	args, err := json.Marshal(c.args)
	if err != nil {
		return 0, 0, err
	}
	err = l.locked(func() error {
		n = l.calls + 1
		if err := l.append(entry{N: n, Event: "start", Server: c.server, Tool: c.tool, Args: args}); err != nil {
			return err
		}
		if err := l.catchUp(); err != nil {
			return err
		}
		count = l.incs[c.key()]
		return nil
	})
	return n, count, err
}

func (l *callLog) end(n int, event string, c call) error {
	args, err := json.Marshal(c.args)
	if err != nil {
		return err
	}
	return l.locked(func() error {
		return l.append(entry{N: n, Event: event, Server: c.server, Tool: c.tool, Args: args})
	})
}

// locked runs f with the file read to its end and no other writer. What a
// writer that was killed left of a line is cut off: it would spoil the next one.
func (l *callLog) locked(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := flock.New(l.path + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer lock.Close()
	if err := l.catchUp(); err != nil {
		return err
	}
	if l.torn {
		if err := os.Truncate(l.path, l.offset); err != nil {
			return err
		}
	}
	return f()
}

func (l *callLog) append(e entry) error {
	e.PID = os.Getpid()
	e.At = time.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// catchUp reads what was appended since the last time.
func (l *callLog) catchUp() error {
	f, err := os.Open(l.path)
	if os.IsNotExist(err) {
		l.offset, l.torn, l.calls, l.incs = 0, false, 0, map[string]int{}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.offset || l.incs == nil {
		l.offset, l.calls, l.incs = 0, 0, map[string]int{}
	}
	fresh := make([]byte, info.Size()-l.offset)
	if _, err := f.ReadAt(fresh, l.offset); err != nil && len(fresh) > 0 {
		return err
	}
	for {
		line, rest, ok := bytes.Cut(fresh, []byte("\n"))
		if !ok {
			l.torn = len(line) > 0
			return nil
		}
		fresh, l.offset = rest, l.offset+int64(len(line))+1
		l.count(line)
	}
}

func (l *callLog) count(line []byte) {
	var e entry
	if json.Unmarshal(line, &e) != nil || e.Event != "start" {
		return
	}
	l.calls = max(l.calls, e.N)
	var args map[string]any
	if e.Tool == "inc" && json.Unmarshal(e.Args, &args) == nil {
		l.incs[call{server: e.Server, args: args}.key()]++
	}
}
