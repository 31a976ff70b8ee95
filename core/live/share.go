package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
)

const (
	maxWatchers = 32              // connections of one process
	nameLength  = 13              // of a runner's name, enough to tell it from others
	maxSocket   = 100             // bytes of a socket's path, which systems bound
	writeWithin = 2 * time.Second // or the watcher is let go
	askWithin   = 5 * time.Second // of a watcher that has connected
	dialWithin  = 250 * time.Millisecond
	socketEnd   = ".sock"
)

// socketOf is where a process shows its texts, by its name as a runner.
func socketOf(dir, runner string) (string, error) {
	path := filepath.Join(dir, filepath.Base(runner[:min(len(runner), nameLength)])+socketEnd)
	if runner == "" || len(path) > maxSocket {
		return "", core.Errorf(core.CodeInvalidConfig, "the path of the socket %s has %d bytes, and a socket's may have %d", core.Visible(path, 200, false), len(path), maxSocket)
	}
	return path, nil
}

// Share shows the texts to other processes of this user, in a folder that is this user's
// alone, until the context ends. runner is the name as a runner that the process keeps until
// it ends: no store of a machine takes it away.
func (t *Texts) Share(ctx context.Context, dir, runner string) error {
	path, err := socketOf(dir, runner)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot create the folder %s: %w", dir, err)
	}
	l, err := listen(ctx, dir, path)
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot listen at %s: %w", path, err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // removes the socket
	go t.accept(ctx, l)
	return nil
}

// listen removes the sockets that were left, and listens at a new one. One process does so at
// a time: a socket that nobody listens at yet looks like one that was left.
func listen(ctx context.Context, dir, path string) (net.Listener, error) {
	unlock, err := atomicfile.Lock(ctx, filepath.Join(dir, "share.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(ctx, dir)
	return new(net.ListenConfig).Listen(ctx, "unix", path)
}

// accept serves watchers until the listener is closed, a bounded number at a time.
func (t *Texts) accept(ctx context.Context, l net.Listener) {
	places := make(chan struct{}, maxWatchers)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || err != nil && !rest(ctx) {
			return
		}
		if err != nil { // of this connection, or too many files are open
			continue
		}
		select {
		case places <- struct{}{}:
			go func() {
				defer func() { <-places }()
				defer core.Recover(t.log, "what a model writes was shown to another process", nil)
				t.serve(ctx, conn)
			}()
		default:
			_ = conn.Close()
		}
	}
}

// rest waits a moment; false when the context ends.
func rest(ctx context.Context) bool {
	t := time.NewTimer(dialWithin)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sweep removes the sockets of processes that were killed.
func sweep(ctx context.Context, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(path, socketEnd) {
			continue
		}
		if conn, err := dial(ctx, path); err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialWithin}
	return d.DialContext(ctx, "unix", path)
}

// serve tells one watcher of the run that it names.
func (t *Texts) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(askWithin)) //nolint:forbidigo // the system compares a deadline with its own clock
	asked := bufio.NewReaderSize(conn, 256)
	line, err := asked.ReadSlice('\n')
	if err != nil {
		return
	}
	run := core.ID(strings.TrimSpace(string(line)))
	_ = conn.SetReadDeadline(time.Time{})
	go func() {
		defer cancel()
		_, _ = asked.ReadByte() // says nothing more: it goes
	}()
	enc := json.NewEncoder(conn)
	_ = t.Watch(ctx, run, func(e core.Event) error {
		_ = conn.SetWriteDeadline(time.Now().Add(writeWithin)) //nolint:forbidigo // the system compares a deadline with its own clock
		return enc.Encode(e)
	})
}

// WatchOther calls f with what the model of a run of another process writes, as Watch
// does, until that process ends or the context does. One that shows nothing is no error.
func WatchOther(ctx context.Context, dir, runner string, run core.ID, f func(core.Event) error) error {
	path, err := socketOf(dir, runner)
	if err != nil {
		return nil
	}
	conn, err := dial(ctx, path)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(string(run) + "\n")); err != nil {
		return nil
	}
	dec := json.NewDecoder(conn)
	for {
		var e core.Event
		if err := dec.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) {
				return core.Errorf(core.CodeInternal, "what a process of this home shows of a run cannot be read: %w", err)
			}
			return nil
		}
		if e.Type != core.EventAgentText || e.RunID != run {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
	}
}
