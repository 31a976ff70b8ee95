package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"github.com/casys-ai/pml/core"
)

// Backup asks the server that has this home's socket for a backup of its runs, and
// writes it to w; false when there is no server. What is cut off has no end that
// whoever reads it would accept.
func (d *Daemon) Backup(ctx context.Context, w io.Writer) (found bool, err error) {
	socket, err := d.socket()
	if err != nil {
		return false, err
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/backup", nil)
	if err != nil {
		return false, core.Errorf(core.CodeInternal, "cannot ask for a backup: %w", err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		if nobody(err) {
			return false, nil
		}
		return false, d.unanswered(ctx, socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return true, refusal(resp)
	}
	if _, err = io.Copy(w, resp.Body); err != nil {
		return true, core.Errorf(core.CodeServerUnreachable, "the pml server on the socket %s stopped in the middle of its backup: %w", socket, err)
	}
	return true, nil
}

// refusal is the error that a server has answered with.
func refusal(resp *http.Response) error {
	var p struct {
		Code   core.Code `json:"code"`
		Detail string    `json:"detail"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&p); err != nil || p.Code == "" {
		return core.Errorf(core.CodeServerUnreachable, "the pml server answered a request for a backup with status %d; is it an older pml? Restart it with this one", resp.StatusCode).
			WithNext("pml", "server", "stop")
	}
	return core.Errorf(p.Code, "%s", core.Visible(p.Detail, 2000, true))
}
