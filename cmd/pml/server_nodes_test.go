//go:build unix

package main

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
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/daemon"
)

// long bounds tests in which servers come and go.
const long = 10 * time.Minute

// beside is another home on the same machine: same workspace, same recorder. What
// the first call writes to pml.lock is trusted by both.
func (m *machine) beside(name string) *machine {
	m.t.Helper()
	m.execute(0, `return await mcp.rec.echo({value: 1})`)
	b := *m
	b.Home = filepath.Join(m.Dir, name)
	b.Env = append(append([]string{}, m.Env...), "PML_HOME="+b.Home)
	b.ok("trust", "--yes")
	return &b
}

// node is a server and a client of its socket, in this process.
type node struct {
	*machine
	*process
	*client.Client
	args []string
}

// node starts a server. It may live as long as long.
func (m *machine) node(args ...string) *node {
	m.t.Helper()
	n := &node{machine: m, args: append([]string{"serve"}, args...)}
	n.up()
	var err error
	n.Client, err = client.New(client.Options{Socket: n.socket(), Workspace: m.WS, Checked: true, Clock: systemClock{}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = n.Client.Close() })
	return n
}

// up starts the server, again after it has ended.
func (n *node) up() {
	n.machine.t.Helper()
	n.process = n.startLong(n.args...)
	n.listening(n.process)
}

// startLong starts pml, and kills it after long at the latest.
func (m *machine) startLong(args ...string) *process {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	p := &process{m: m, args: args, cancel: cancel, cmd: m.command(ctx, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		cancel()
		m.t.Fatal(err)
	}
	go p.wait()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		p.wait()
	})
	return p
}

func (m *machine) socket() string {
	m.t.Helper()
	rec, ok := daemon.ReadRecord(m.Home)
	if !ok {
		m.t.Fatal("no server has said where it is")
	}
	return rec.Socket
}

// begin starts a run and does not wait for it.
func (n *node) begin(req api.ExecuteRequest) core.ID {
	n.machine.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := n.Execute(ctx, req)
	if err != nil {
		n.machine.t.Fatal(err)
	}
	return r.WorkflowID
}

// records are the journal of a run.
func (n *node) records(id core.ID) []core.Record {
	n.machine.t.Helper()
	list, err := n.Records(context.Background(), id, 0)
	if err != nil {
		n.machine.t.Fatal(err)
	}
	return list
}

// starts counts how often a call reached the recorder, by tool and arguments.
func (m *machine) starts() map[string]int {
	m.t.Helper()
	out := map[string]int{}
	for _, c := range m.calls() {
		out[c]++
	}
	return out
}

// answers decides what runs ask about calls in doubt, as the log of the recorder
// says: a call that has ended is skipped, one that has not is run again. It
// remembers which calls it was asked about, by tool and arguments.
type answers struct {
	n     *node
	asked map[string]core.InDoubtAnswer
}

func (a *answers) give(ctx context.Context) {
	t := a.n.machine.t
	t.Helper()
	open, err := a.n.Approvals(ctx, false)
	if err != nil {
		t.Fatal(err)
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
		call := strings.TrimPrefix(about.Tool, "rec:") + " " + compact(t, about.Arguments)
		answer := core.Answer{InDoubt: core.RunAgain}
		for _, e := range a.n.entries() {
			if e.Event == "end" && e.Tool+" "+string(e.Args) == call {
				answer = core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`{"count":1}`)}
			}
		}
		a.asked[call] = answer.InDoubt
		_, err := a.n.Continue(ctx, api.ContinueRequest{ID: ap.RunID, Decision: &api.Decision{Approve: true, Checkpoint: ap.ID, Answer: &answer}})
		if err != nil {
			t.Errorf("answer for %s: %v", call, err)
		}
	}
}

// follower follows the events of a server over its restarts.
type follower struct {
	mu    sync.Mutex
	list  []core.Event
	ended map[core.ID]core.EventType
	done  chan struct{}
	err   error
	stop  context.CancelFunc
}

// follow starts a reader; every event must have the number after the last one.
func (n *node) follow() *follower {
	t := n.machine.t
	ctx, cancel := context.WithTimeout(context.Background(), long)
	r := &follower{done: make(chan struct{}), stop: cancel, ended: map[core.ID]core.EventType{}}
	go func() {
		defer close(r.done)
		r.err = n.Events(ctx, "", 0, true, func(e core.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if want := int64(len(r.list)) + 1; e.Seq != want {
				t.Errorf("event %d, want %d: %s of %s", e.Seq, want, e.Type, e.RunID)
			}
			r.list = append(r.list, e)
			switch e.Type {
			case core.EventWorkflowComplete, core.EventWorkflowFailed, core.EventWorkflowAbort, core.EventWorkflowExpired:
				if was := r.ended[e.RunID]; was != "" {
					t.Errorf("%s ended with %s and then with %s", e.RunID, was, e.Type)
				}
				r.ended[e.RunID] = e.Type
			default:
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("a reader of events gave up: %v", r.err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// seen is how many events there were, and how many of them ended a run.
func (r *follower) seen() (events, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list), len(r.ended)
}

// events is what a reader has seen.
func (r *follower) events() []core.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]core.Event{}, r.list...)
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
