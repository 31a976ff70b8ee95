package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	maxBody     = 1 << 20 // of any answer
	requestTime = 30 * time.Second
)

var (
	errRedirect = errors.New("a redirect to another host is not followed")
	errTooLong  = errors.New("the answer is too long")
)

// newHTTP returns the client of all requests. Requests are rare, so no
// connection is kept open.
func newHTTP(given *http.Client) *http.Client {
	var c http.Client
	if given != nil {
		c = *given
	} else if base, ok := http.DefaultTransport.(*http.Transport); ok {
		own := base.Clone()
		own.DisableKeepAlives = true
		c.Transport = own
	}
	if c.Timeout == 0 {
		c.Timeout = requestTime
	}
	c.Jar = nil
	c.CheckRedirect = checkRedirect
	return &c
}

// checkRedirect follows a GET within its origin only. A POST carries secrets
// and is not followed at all.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	if len(via) > 5 || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return errRedirect
	}
	return nil
}

// get fetches a JSON document. It is nil where there is none: a status of the
// client's kind, or something that is not JSON, as sites answer that have one
// page for everything.
func (c *Client) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	status, kind, body, err := c.do(req)
	switch {
	case err != nil:
		return nil, unreachable(url, err)
	case status >= 400 && status < 500, status == http.StatusOK && !isJSON(kind):
		return nil, nil
	case status != http.StatusOK:
		return nil, core.Errorf(core.CodeServerUnreachable, "%s answered with status %d; try again later", url, status)
	}
	return body, nil
}

// post sends a JSON document and returns the answer.
func (c *Client) post(ctx context.Context, url string, doc any) (status int, body []byte, err error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return 0, nil, core.Errorf(core.CodeInternal, "cannot write a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, core.Errorf(core.CodeInternal, "cannot make a request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	status, _, body, err = c.do(req)
	if err != nil {
		return 0, nil, unreachable(url, err)
	}
	return status, body, nil
}

func (c *Client) do(req *http.Request) (status int, kind string, body []byte, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errTooLong
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), body, err
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// unreachable is a request that was not answered. Its cause stays, so that a
// caller sees its own context's end.
func unreachable(url string, err error) *core.Error {
	if errors.Is(err, context.Canceled) {
		return core.Errorf(core.CodeCancelled, "the request to %s was cancelled: %w", url, err)
	}
	return core.Errorf(core.CodeServerUnreachable, "cannot reach %s: %w; check the network and try again", url, err)
}
