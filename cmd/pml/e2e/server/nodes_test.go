//go:build unix

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// besideOf is another home on the same machine: same workspace, same recorder. What
// the first call writes to pml.lock is trusted by both.
func besideOf(m *pmltest.Machine, name string) *pmltest.Machine {
	m.T.Helper()
	m.Execute(0, `return await mcp.rec.echo({value: 1})`)
	b := *m
	b.Home = filepath.Join(m.Dir, name)
	b.Env = append(append([]string{}, m.Env...), "PML_HOME="+b.Home)
	b.OK("trust", "--yes")
	return &b
}

// countStarts counts how often a call reached the recorder, by tool and arguments.
func countStarts(m *pmltest.Machine) map[string]int {
	m.T.Helper()
	out := map[string]int{}
	for _, c := range m.Calls() {
		out[c]++
	}
	return out
}

// answers decides what runs ask about calls in doubt, as the log of the recorder
// says: a call that has ended is skipped, one that has not is run again. It
// remembers which calls it was asked about, by tool and arguments.
type answers struct {
	n     *pmltest.Node
	asked map[string]core.InDoubtAnswer
}

func (a *answers) give(ctx context.Context) {
	t := a.n.Machine.T
	t.Helper()
	open, err := a.n.Client.Approvals(ctx, false)
	if err != nil {
		t.Log(err) // a database that has just come back answers late; whoever calls this asks again
		return
	}
	for _, ap := range open {
		if ap.Type != core.ApproveInDoubt {
			t.Errorf("asked for %s of %s", ap.Type, ap.Tool)
			continue
		}
		var about struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(ap.Context, &about); err != nil {
			t.Fatal(err)
		}
		call := strings.TrimPrefix(about.Tool, "rec:") + " " + pmltest.Compact(t, about.Arguments)
		answer := core.Answer{InDoubt: core.RunAgain}
		for _, e := range a.n.Entries() {
			if e.Event == "end" && e.Tool+" "+string(e.Args) == call {
				answer = core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"count":1}`)}
			}
		}
		a.asked[call] = answer.InDoubt
		_, err := a.n.Client.Continue(ctx, api.ContinueRequest{ID: ap.RunID, Decision: &api.Decision{Approve: true, Checkpoint: ap.ID, Answer: &answer}})
		if err != nil {
			t.Errorf("answer for %s: %v", call, err)
		}
	}
}

// within waits, longer than waitFor does.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// sse is one stream of events as it comes over the wire.
type sse struct {
	resp *http.Response
	scan *bufio.Scanner
	last int64
}

// dialled is an HTTP client that opens a connection of its own for every request.
func dialled(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// openSSE follows the events after a number; negative: from the snapshot.
func openSSE(ctx context.Context, c *http.Client, since int64) (*sse, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pml/api/v1/events", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if since >= 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(since, 10))
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	s := &sse{resp: resp, scan: bufio.NewScanner(resp.Body), last: since}
	s.scan.Buffer(nil, 32<<20)
	return s, nil
}

// next returns the number of the next frame that has come in whole; a snapshot
// has one, too.
func (s *sse) next() (seq int64, kind string, err error) {
	for s.scan.Scan() {
		line := s.scan.Text()
		switch {
		case strings.HasPrefix(line, "id: "):
			if seq, err = strconv.ParseInt(line[4:], 10, 64); err != nil {
				return 0, "", err
			}
		case strings.HasPrefix(line, "event: "):
			kind = line[7:]
		case line == "" && kind != "":
			s.last = seq
			return seq, kind, nil
		}
	}
	if err := s.scan.Err(); err != nil {
		return 0, "", err
	}
	return 0, "", io.EOF
}
