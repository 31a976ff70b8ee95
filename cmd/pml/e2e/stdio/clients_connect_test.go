//go:build unix

package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// mcpClient is a client of MCP by others, connected to a pml.
type mcpClient interface {
	// version is the revision of the protocol that was agreed on.
	version() string
	// pid is the process of the pml stdio that the client has started, or 0.
	pid() int
	tools(ctx context.Context) ([]string, error)
	// call calls a tool; progress, if any, is told before the call returns.
	call(ctx context.Context, name string, args any, progress func(float64)) (json.RawMessage, error)
	// late are notifications of progress that came after the answer to their
	// call. It is asked when the client has had another answer since.
	late() int
	close()
}

// dialed is where a client finds pml: a command, or an address and a key.
type dialed struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Elicits has the client declare that it can be asked, and answer like this.
	Elicits *elicits `json:"elicits,omitempty"`
}

// elicits is how a client answers the questions of pml.
type elicits struct {
	Action string `json:"action"` // accept or decline
	After  int64  `json:"after"`  // ms
}

// command is the process that a client starts, for clients in Go.
func (d dialed) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.Command, d.Args...)
	cmd.Dir = d.Dir
	for name, value := range d.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// stdioTarget is pml stdio of a machine.
func stdioTarget(m *pmltest.Machine) dialed {
	m.T.Helper()
	d := dialed{Command: m.Binary(), Args: []string{"stdio"}, Dir: m.WS, Env: map[string]string{}}
	for _, e := range m.Env {
		name, value, _ := strings.Cut(e, "=")
		d.Env[name] = value
	}
	return d
}

// structureOf is the structure in the answer to tools/call. It says what is
// wrong with the form of the answer.
func structureOf(raw []byte) (json.RawMessage, error) {
	var v struct {
		Content []struct {
			Type, Text string
		}
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var text, structure any
	if len(v.Content) != 1 || json.Unmarshal([]byte(v.Content[0].Text), &text) != nil || json.Unmarshal(v.StructuredContent, &structure) != nil {
		return nil, fmt.Errorf("text or structure is not JSON: %s", raw)
	}
	if a, b := fmt.Sprint(text), fmt.Sprint(structure); a != b {
		return nil, fmt.Errorf("text and structure differ: %s, %s", a, b)
	}
	if fields, _ := structure.(map[string]any); v.IsError != (fields["status"] == string(api.StatusError)) {
		return nil, fmt.Errorf("isError is %v with %s", v.IsError, v.StructuredContent)
	}
	return v.StructuredContent, nil
}

// clientPackages is the folder with the clients from npm and their drivers.
func clientPackages(t testing.TB) string {
	t.Helper()
	skiptest.Tool(t, "node")
	packages := pmltest.NPMPackages(t, "clients", "ci")
	dir := t.TempDir()
	drivers, err := filepath.Glob(filepath.Join(repository(t), "testdata", "clients", "*.mjs"))
	if err != nil || len(drivers) == 0 {
		t.Fatal("no drivers", err)
	}
	for _, file := range drivers {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(pmltest.ReadFile(t, file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// repository is the folder of the repository.
func repository(t testing.TB) string {
	t.Helper()
	root, err := os.Getwd() // see pmltest.Main
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// scripted is a client that runs in node and is driven over its stdio.
type scripted struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	err   pmltest.Buffer
	where connected

	mu   sync.Mutex
	n    int
	open map[int]*pending
	gone chan struct{} // closed when stdout has ended
}

type connected struct {
	Version string
	PID     int
}

// pending is a command whose answer is awaited.
type pending struct {
	progress func(float64)
	answer   chan scriptedAnswer
}

type scriptedAnswer struct {
	ID    int
	Value json.RawMessage
	Error *struct {
		Message string
		Code    any
	}
	Progress *struct{ Progress float64 }
}

// script starts a driver and connects it.
func script(t testing.TB, packages string, to dialed, args ...string) *scripted {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	t.Cleanup(cancel)
	s := &scripted{t: t, cmd: exec.CommandContext(ctx, skiptest.Tool(t, "node"), args...), open: map[int]*pending{}, gone: make(chan struct{})}
	s.cmd.Dir, s.cmd.Stderr = packages, &s.err
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(out)
	t.Cleanup(s.close)
	raw, err := s.do(ctx, map[string]any{"op": "connect", "target": to}, nil)
	if err == nil {
		err = json.Unmarshal(raw, &s.where)
	}
	if err != nil {
		t.Fatalf("%v does not connect: %v\n%s", args, err, s.err.String())
	}
	return s
}

func (s *scripted) read(out io.Reader) {
	defer close(s.gone)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a scriptedAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			continue // waits forever, and then the test says so
		}
		s.mu.Lock()
		p := s.open[a.ID]
		s.mu.Unlock()
		switch {
		case p == nil:
		case a.Progress != nil:
			if p.progress != nil {
				p.progress(a.Progress.Progress)
			}
		default:
			p.answer <- a
		}
	}
}

// do sends a command and waits for its answer. When the context ends the
// command is cancelled, and answers all the same.
func (s *scripted) do(ctx context.Context, command map[string]any, progress func(float64)) (json.RawMessage, error) {
	p := &pending{progress: progress, answer: make(chan scriptedAnswer, 1)}
	s.mu.Lock()
	s.n++
	id := s.n
	s.open[id] = p
	s.mu.Unlock()
	command["id"] = id
	if err := s.write(command); err != nil {
		return nil, err
	}
	var a scriptedAnswer
	select {
	case a = <-p.answer:
	case <-s.gone:
		return nil, errors.New("the driver has ended: " + s.err.String())
	case <-ctx.Done():
		if err := s.write(map[string]any{"op": "cancel", "of": id}); err != nil {
			return nil, err
		}
		select {
		case a = <-p.answer:
		case <-s.gone:
			return nil, ctx.Err()
		}
	}
	if a.Error != nil {
		return nil, fmt.Errorf("%v %s", a.Error.Code, a.Error.Message)
	}
	return a.Value, nil
}

func (s *scripted) write(command map[string]any) error {
	raw, err := json.Marshal(command)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.in.Write(append(raw, '\n'))
	return err
}

func (s *scripted) version() string { return s.where.Version }
func (s *scripted) pid() int        { return s.where.PID }

func (s *scripted) tools(ctx context.Context) (names []string, err error) {
	raw, err := s.do(ctx, map[string]any{"op": "tools"}, nil)
	if err == nil {
		err = json.Unmarshal(raw, &names)
	}
	return names, err
}

func (s *scripted) call(ctx context.Context, name string, args any, progress func(float64)) (json.RawMessage, error) {
	raw, err := s.do(ctx, map[string]any{"op": "call", "name": name, "arguments": args, "progress": progress != nil}, progress)
	if err != nil {
		return nil, err
	}
	return structureOf(raw)
}

func (s *scripted) late() int {
	raw, err := s.do(context.Background(), map[string]any{"op": "trace"}, nil)
	var trace []traced
	if err == nil {
		err = json.Unmarshal(raw, &trace)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return lateIn(trace)
}

func (s *scripted) close() {
	_ = s.in.Close() // the driver closes its client and ends
	<-s.gone
	_ = s.cmd.Wait()
}

// traced is one message that has reached a client.
type traced struct {
	Progress json.RawMessage // its token
	Answer   json.RawMessage // its id
}

// lateIn counts progress after the answer to its call. The token of a call is
// its id.
func lateIn(trace []traced) (late int) {
	answered := map[string]bool{}
	for _, m := range trace {
		if m.Answer != nil {
			answered[string(bytes.Trim(m.Answer, `"`))] = true
		}
		if m.Progress != nil && answered[string(bytes.Trim(m.Progress, `"`))] {
			late++
		}
	}
	return late
}
