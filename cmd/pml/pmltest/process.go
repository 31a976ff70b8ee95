//go:build unix

package pmltest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// End is a way in which a pml process ends before its run does.
type End struct {
	Name string
	Do   func(*Process)
	Exit int // 0: not looked at
}

// Ends are the ways in which a pml process ends.
var Ends = []End{
	{"SIGINT", func(p *Process) { p.Signal(syscall.SIGINT) }, 130},
	{"SIGTERM", func(p *Process) { p.Signal(syscall.SIGTERM) }, 143},
	// Under nohup, too: Main sees to it that what it starts heeds a hangup.
	{"SIGHUP", func(p *Process) { p.Signal(syscall.SIGHUP) }, 129},
	// Ctrl-C reaches every process of the terminal's group.
	{"Ctrl-C", func(p *Process) { _ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGINT) }, 130},
	{"kill", func(p *Process) { p.Signal(syscall.SIGKILL) }, 0},
	{"kill all", (*Process).Kill, 0},
}

// Process is a pml that runs.
type Process struct {
	M    *Machine
	Args []string
	Cmd  *exec.Cmd
	Out  Buffer
	Err  Buffer
	res  Output
	done chan struct{} // closed when it has ended, and res is there
}

// Start starts pml. What is left of it at the end of the test is killed.
func (m *Machine) Start(args ...string) *Process {
	m.T.Helper()
	return m.StartIn(m.WS, args...)
}

// StartIn starts pml in a folder.
func (m *Machine) StartIn(dir string, args ...string) *Process {
	m.T.Helper()
	p := &Process{M: m, Args: args, Cmd: m.Command(context.Background(), args...), done: make(chan struct{})}
	p.Cmd.Dir, p.Cmd.Stdout, p.Cmd.Stderr = dir, &p.Out, &p.Err
	if err := p.Cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	go p.reap()
	m.T.Cleanup(func() {
		p.tell()
		_ = p.Cmd.Process.Kill() // most have ended
		p.Wait()
	})
	return p
}

// tell says of a failed test what this pml has printed, and where it is if it still
// runs: what happens once in a thousand runs is not seen again.
func (p *Process) tell() {
	if !p.M.T.Failed() {
		return
	}
	state := "still ran"
	select {
	case <-p.done:
		state = "had ended with exit " + strconv.Itoa(p.res.Exit)
	default:
		_ = p.Cmd.Process.Signal(syscall.SIGQUIT) // the Go runtime prints all goroutines
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
		}
	}
	p.M.T.Logf("pml %s %s\nstdout: %s\nstderr: %s", strings.Join(p.Args, " "), state, p.Out.String(), p.Err.String())
}

// reap takes what the process came to.
func (p *Process) reap() {
	defer close(p.done)
	err := p.Cmd.Wait()
	p.res = Output{t: p.M.T, Args: p.Args, Exit: p.Cmd.ProcessState.ExitCode(), Stdout: p.Out.String(), Stderr: p.Err.String()}
	if status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.res.Exit = 128 + int(status.Signal())
	}
	if err != nil && errors.Is(err, exec.ErrWaitDelay) {
		p.res.Stderr += "\n[harness: a child kept the output open]"
	}
}

// Wait waits for the end. It may be called again. A process that does not end
// fails the test and is killed.
func (p *Process) Wait() Output {
	p.M.T.Helper()
	select {
	case <-p.done:
	case <-time.After(LongPatience): // it may install a hundred packages
		p.M.T.Errorf("pml %s did not end in %s and is killed\nstdout: %s\nstderr: %s", strings.Join(p.Args, " "), LongPatience, p.Out.String(), p.Err.String())
		_ = p.Cmd.Process.Kill() // it may have ended now
		<-p.done                 // WaitDelay bounds it
	}
	return p.res
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Signal sends a signal to pml alone. To one that has ended it is none.
func (p *Process) Signal(s syscall.Signal) {
	p.M.T.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.M.T.Fatal(err)
	}
}

// Kill kills pml and all its descendants with -9, at once.
func (p *Process) Kill() {
	p.M.T.Helper()
	pids := Descendants(p.M.T, p.Cmd.Process.Pid)
	p.Signal(syscall.SIGKILL)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	p.Wait()
}

// Descendants are the processes below one.
func Descendants(t testing.TB, root int) []int {
	t.Helper()
	raw, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		pid, _ := strconv.Atoi(f[0])
		ppid, _ := strconv.Atoi(f[1])
		children[ppid] = append(children[ppid], pid)
	}
	var out []int
	todo := []int{root}
	for len(todo) > 0 {
		next := children[todo[0]]
		todo = append(todo[1:], next...)
		out = append(out, next...)
	}
	return out
}

// Buffer is a bytes.Buffer for a writer and readers.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// WaitGone wants that processes are no more. A process that was just killed may be
// seen for a moment.
func WaitGone(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		WaitFor(t, "the end of process "+strconv.Itoa(pid), func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}
