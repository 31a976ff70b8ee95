package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/casys-ai/pml/core/api"
)

// maxStatus bounds what is read of an answer.
const maxStatus = 64 << 10

// ask asks whoever listens on a socket what it is. Nobody there, or a file that
// a dead server left: nil without an error.
func ask(ctx context.Context, socket string) (*api.ServerStatus, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		if nobody(err) {
			return nil, nil
		}
		return nil, err
	}
	var st api.ServerStatus
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	defer t.CloseIdleConnections()
	if err := get(ctx, t, &st); err != nil {
		return nil, errors.Join(err, ignoreClosed(conn.Close()))
	}
	return &st, ignoreClosed(conn.Close())
}

func get(ctx context.Context, t *http.Transport, st *api.ServerStatus) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/server", nil)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered with status %d", resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(st)
}

// nobody reports whether a connection failed because there is no server: no
// such file, or one that nobody listens on any more.
func nobody(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTSOCK)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// hungUp reports whether the other side has closed a connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
