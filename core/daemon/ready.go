package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/casys-ai/pml/core"
)

// ready is what a new server tells its starter, once, over a pipe.
type ready struct {
	Error *core.Error `json:"error,omitempty"`
}

// maxReady bounds what a starter reads of it.
const maxReady = 1 << 20

// Ready is the end of the pipe that a server in the background has got: its
// starter waits at the other one.
type Ready struct{ f *os.File }

// OpenReady takes over the descriptor that --ready-fd named.
func OpenReady(fd int) (*Ready, error) {
	// It is looked at before it is taken over: one that is not meant may be the
	// process's own, and must stay open.
	if fd < 3 || !isPipe(fd) {
		return nil, core.Errorf(core.CodeUsage, "--ready-fd %d is no pipe of a starter", fd)
	}
	// What this process starts before it is ready must not keep the pipe open.
	closeOnExec(fd)
	f := os.NewFile(uintptr(fd), "ready")
	return &Ready{f}, nil
}

// Tell says that the server is ready, or why it cannot be, and lets the starter
// go. A nil Ready tells nobody; so does one that has told already.
func (r *Ready) Tell(err error) {
	if r == nil || r.f == nil {
		return
	}
	msg := ready{}
	if err != nil {
		msg.Error = core.AsError(err)
	}
	raw, merr := json.Marshal(msg)
	if merr == nil {
		_, merr = r.f.Write(append(raw, '\n'))
	}
	// Where the process that started the server is gone, nobody reads this; the server runs all the same.
	_ = errors.Join(merr, r.f.Close())
	r.f = nil
}

// heard is what the starting process read at the other end. It does not wait for the end
// of the pipe, which another process may have got open.
func heard(r io.Reader) (said bool, failed *core.Error, err error) {
	var msg ready
	switch err := json.NewDecoder(io.LimitReader(r, maxReady)).Decode(&msg); {
	case errors.Is(err, io.EOF): // not a word
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	return true, msg.Error, nil
}
