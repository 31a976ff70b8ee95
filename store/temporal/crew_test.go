package temporal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store/temporal"
)

// crew is a Temporal server with its data on disk, and workers of pml upon it: processes that
// can be killed.
type crew struct {
	t       *testing.T
	dir     string
	program string // Temporal's
	port    int
	server  *exec.Cmd
	config  workerConfig
	members []*member
}

// member is the place of one worker: the process in it is replaced after each kill.
type member struct {
	crew *crew
	name string

	mu   sync.Mutex
	proc *workerHandle
}

// workerHandle is one process.
type workerHandle struct {
	cmd   *exec.Cmd
	in    io.Writer
	up    chan struct{} // closed when it takes orders
	ended chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
}

func newCrew(t *testing.T, workers int) *crew {
	t.Helper()
	c := &crew{t: t, dir: t.TempDir(), program: command(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	c.config = workerConfig{
		Address: fmt.Sprint("127.0.0.1:", c.port), Name: fmt.Sprint("pml-", enginetest.NewID().Short()),
		Blobs: filepath.Join(c.dir, "blobs"), Log: filepath.Join(c.dir, "effects"),
	}
	c.startServer()
	t.Cleanup(func() { c.killServer() })
	if err := temporal.Prepare(t.Context(), temporal.Options{Address: c.config.Address, Namespace: "default", Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	for i := range workers {
		m := &member{crew: c, name: fmt.Sprint("worker ", i)}
		m.start()
		c.members = append(c.members, m)
		t.Cleanup(func() { m.kill() })
	}
	for _, m := range c.members {
		m.await()
	}
	return c
}

// startServer starts Temporal, and waits until it answers.
func (c *crew) startServer() {
	c.t.Helper()
	c.server = exec.Command(c.program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(c.port),
		"--db-filename", filepath.Join(c.dir, "temporal.db"), "--log-level", "error")
	c.server.Stdout, c.server.Stderr = c.output("server"), c.output("server")
	if err := c.server.Start(); err != nil {
		c.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), enginetest.Hung)
	defer cancel()
	for {
		first, stop := context.WithTimeout(ctx, 5*time.Second)
		cl, err := client.DialContext(first, client.Options{HostPort: c.config.Address, Logger: silent{}})
		stop()
		if err == nil {
			cl.Close()
			return
		}
		if ctx.Err() != nil {
			c.t.Errorf("the server does not start: %v\n%s", err, c.tail("server"))
			return
		}
		pause(100 * time.Millisecond)
	}
}

func (c *crew) killServer() {
	_ = c.server.Process.Kill()
	_ = c.server.Wait()
}

// output is where a process writes; what it says is shown when the test fails.
func (c *crew) output(name string) *os.File {
	f, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// start puts a process into the place.
func (m *member) start() {
	config, err := json.Marshal(m.crew.config)
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(config))
	cmd.Stderr = m.crew.output(m.name)
	in, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	h := &workerHandle{cmd: cmd, in: in, up: make(chan struct{}), ended: make(chan struct{}), waiting: map[int]chan reply{}}
	go h.read(out)
	m.mu.Lock()
	m.proc = h
	m.mu.Unlock()
}

// read takes answers until the process ends.
func (h *workerHandle) read(out io.Reader) {
	defer close(h.ended)
	in := bufio.NewScanner(out)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var r reply
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			continue // half a line of one that was killed
		}
		if r.N == 0 {
			close(h.up)
			continue
		}
		h.mu.Lock()
		c := h.waiting[r.N]
		delete(h.waiting, r.N)
		h.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

func (m *member) now() *workerHandle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

// await waits until the process takes orders.
func (m *member) await() {
	select {
	case <-m.now().up:
	case <-m.now().ended:
		m.crew.t.Fatalf("%s has ended:\n%s", m.name, m.crew.tail(m.name))
	case <-time.After(enginetest.Hung):
		m.crew.t.Fatalf("%s does not start:\n%s", m.name, m.crew.tail(m.name))
	}
}

// kill ends the process as SIGKILL does; false when it has ended before.
func (m *member) kill() bool {
	h := m.now()
	err := h.cmd.Process.Kill()
	_ = h.cmd.Wait()
	return err == nil
}

// errNoAnswer is the error of an order that nobody has answered.
var errNoAnswer = errors.New("the worker has died, or does not answer")

// ask gives an order; a worker that dies meanwhile is errNoAnswer, and nobody knows what it did.
func (m *member) ask(o order, patience time.Duration) (reply, error) {
	h := m.now()
	c := make(chan reply, 1)
	h.mu.Lock()
	h.next++
	o.N = h.next
	h.waiting[o.N] = c
	line, err := json.Marshal(o)
	if err == nil {
		_, err = h.in.Write(append(line, '\n'))
	}
	h.mu.Unlock()
	if err != nil {
		return reply{}, errNoAnswer
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-c:
		if r.Err != nil {
			return r, r.Err
		}
		return r, nil
	case <-h.ended:
	case <-late.C:
	}
	return reply{}, errNoAnswer
}

// effects are those that the world has seen.
func (c *crew) effects() (all []effect) {
	raw, err := os.ReadFile(c.config.Log)
	if err != nil {
		c.t.Error(err)
	}
	for line := range strings.Lines(string(raw)) {
		var e effect
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // half a line: the call that writes it has not had its effect
		}
		all = append(all, e)
	}
	return all
}

// tail is the end of what a process has said.
func (c *crew) tail(name string) string {
	raw, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
	return string(raw[max(0, len(raw)-4000):])
}

// number is how often, by a variable of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

// pause waits as a client does that asks again.
func pause(d time.Duration) { <-time.After(d) }
