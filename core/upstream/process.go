package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/casys-ai/pml/core"
)

const (
	// maxQueued bounds what waits for a child that does not read its input.
	maxQueued = 64 << 20
	// drainGrace is how long output is still read after a child has ended: so long
	// only when a grandchild that left the group holds it open.
	drainGrace = 2 * time.Second
	// exitWait is how long a child that has closed its output may take to end before
	// pml says that it went on. A child that exits closes its output first, and on a
	// busy machine seconds pass until the kernel has ended it. Only a child that
	// really goes on, as hardly any server does, is waited for so long.
	exitWait = 5 * time.Second
	// lastWords is how long an error waits for the rest of a dead child's stderr:
	// so long only when a grandchild that left the group holds it open.
	lastWords = 2 * time.Second
	// killWait is how long a killed child may take to be gone on a busy machine.
	killWait = 10 * time.Second
)

// process is a child with its own process group.
type process struct {
	cmd    *exec.Cmd
	stdin  *queueWriter
	stdout *os.File
	stderr *ring
	// exited is closed when the child is gone and its group was killed;
	// drained when its stderr has ended too.
	exited, drained chan struct{}
	status          string                 // set before exited is closed
	banner          atomic.Pointer[string] // the first line on stdout that is no message

	settling sync.Once
	outlived bool // its output ended, and it went on
}

// startProcess runs the command of a Launch. run is where the fork happens.
func startProcess(l Launch, stderrBytes int, run func(func() error) error) (*process, error) {
	dir := l.Dir
	if dir == "" {
		dir = l.Workspace
	}
	if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
		return nil, core.Errorf(core.CodeServerUnreachable, "server %q cannot be started: its folder %s does not exist", l.Name, dir)
	}
	path, err := lookPath(l.Command, l.Env)
	if err != nil {
		return nil, core.Errorf(core.CodeServerUnreachable, "server %q cannot be started: %w", l.Name, err)
	}
	// Not CommandContext: it would kill the child alone, not its group.
	cmd := &exec.Cmd{Path: path, Args: append([]string{l.Command}, l.Args...), Dir: dir, Env: append([]string{}, l.Env...)}
	setGroup(cmd)
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours[:], theirs[:])
			return nil, core.Errorf(core.CodeServerUnreachable, "server %q cannot be started: %w", l.Name, err)
		}
		if i == 0 {
			ours[i], theirs[i] = w, r
		} else {
			ours[i], theirs[i] = r, w
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := run(cmd.Start); err != nil {
		closeAll(ours[:], theirs[:])
		return nil, core.Errorf(core.CodeServerUnreachable, "server %q cannot be started: %w", l.Name, err)
	}
	closeAll(theirs[:])
	p := &process{cmd: cmd, stdin: newQueueWriter(ours[0]), stdout: ours[1], stderr: newRing(stderrBytes),
		exited: make(chan struct{}), drained: make(chan struct{})}
	go p.drain(ours[2])
	go p.wait()
	return p, nil
}

func closeAll(groups ...[]*os.File) {
	for _, files := range groups {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// drain keeps the child from blocking on a full pipe.
func (p *process) drain(stderr *os.File) {
	_, _ = io.Copy(p.stderr, stderr)
	_ = stderr.Close()
	close(p.drained)
}

// wait reaps the child, kills what it left behind and ends its pipes.
func (p *process) wait() {
	err := p.cmd.Wait()
	killGroup(p.cmd.Process.Pid)
	p.status = "ended"
	if s := p.cmd.ProcessState; s != nil {
		p.status = s.String()
	} else if err != nil {
		p.status = err.Error()
	}
	close(p.exited)
	_ = p.stdin.Close()
	// A grandchild that left the group may hold the pipes open for ever.
	t := time.NewTimer(drainGrace)
	defer t.Stop()
	select {
	case <-p.drained:
	case <-t.C:
	}
	_ = p.stdin.file.Close()
}

// stop ends the child: pml closes its input, then signals its group to
// terminate, then killed, with a wait after each.
func (p *process) stop(grace time.Duration) error {
	_ = p.stdin.Close()
	if p.waitExit(grace) {
		return nil
	}
	terminateGroup(p.cmd.Process)
	if p.waitExit(grace) {
		return nil
	}
	killGroup(p.cmd.Process.Pid)
	_ = p.cmd.Process.Kill()
	if p.waitExit(killWait) {
		return nil
	}
	return fmt.Errorf("process %d does not end", p.cmd.Process.Pid)
}

func (p *process) waitExit(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// settle waits a moment for a child whose output has ended to end too, and
// notes when it does not. It is called before anything is done to the child.
func (p *process) settle() {
	p.settling.Do(func() { p.outlived = !p.waitExit(exitWait) })
}

// report says how the child ended by itself and what it last wrote to stderr.
func (p *process) report() string {
	p.settle()
	text := "it closed its output and went on running"
	if !p.outlived {
		text = p.status
		t := time.NewTimer(lastWords)
		defer t.Stop()
		select {
		case <-p.drained:
		case <-t.C:
		}
	}
	return text + p.lastSaid(!p.outlived)
}

// lastSaid is what the child wrote to stderr, as the end of a sentence; empty for
// nothing. What it was about often stands before a page of usage or stack. Of one that
// has ended what it wrote to stdout may say why, and to write it elsewhere would not help.
func (p *process) lastSaid(ended bool) string {
	text := ""
	if line := p.banner.Load(); line != nil && ended {
		text = fmt.Sprintf("; on stdout it wrote %q", *line)
	} else if line != nil {
		text = fmt.Sprintf("; on stdout, where only MCP messages belong, it wrote %q: have it log to stderr", *line)
	}
	said, begins := p.stderr.words(10, 2000)
	if said == "" {
		return text
	}
	if begins {
		return text + "; it said:\n" + said
	}
	return text + "; it last said:\n" + said
}

// stray takes note of a line on stdout that is no message.
func (p *process) stray(line []byte) {
	if text := strings.TrimSpace(core.Visible(string(line), 200, false)); text != "" {
		p.banner.CompareAndSwap(nil, &text)
	}
}

// lookPath finds a command as the child's own PATH has it: the environment of
// pml is not the one that the entry declares.
func lookPath(command string, env []string) (string, error) {
	if command == "" {
		return "", errors.New("no command is configured")
	}
	path, ok := "", false
	for _, kv := range env {
		if v, found := strings.CutPrefix(kv, "PATH="); found {
			path, ok = v, true
		}
	}
	if strings.ContainsRune(command, '/') || !ok || runtime.GOOS == "windows" {
		if strings.ContainsRune(command, '/') && runtime.GOOS != "windows" {
			return command, nil // relative to Dir, as the kernel resolves it
		}
		return exec.LookPath(command)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // nothing in a working directory is found by chance
		}
		file := filepath.Join(dir, command)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%q is not in its PATH", command)
}

// spawner runs functions on one thread that lives as long as it does. Linux
// sends a child's parent-death signal when the thread that forked it ends, and
// the Go runtime may end any other thread.
type spawner struct {
	once sync.Once
	jobs chan func()
	done <-chan struct{}
}

func newSpawner(ctx context.Context) *spawner {
	return &spawner{jobs: make(chan func()), done: ctx.Done()}
}

func (s *spawner) run(f func() error) error {
	s.once.Do(func() { go s.loop() })
	res := make(chan error, 1)
	select {
	case s.jobs <- func() { res <- f() }:
		return <-res
	case <-s.done:
		return context.Canceled
	}
}

func (s *spawner) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case f := <-s.jobs:
			f()
		case <-s.done:
			return
		}
	}
}

// queueWriter writes to a pipe without ever blocking its caller: a child that
// does not read must not hold up the cancellation of a call.
type queueWriter struct {
	file    *os.File
	mu      sync.Mutex
	buf     []byte
	writing int // bytes that the loop took from buf and is writing
	closed  bool
	wake    chan struct{}
	full    chan struct{} // closed when too much waits
}

func newQueueWriter(file *os.File) *queueWriter {
	w := &queueWriter{file: file, wake: make(chan struct{}, 1), full: make(chan struct{})}
	go w.loop()
	return w
}

// Write queues p and never fails. When too much waits it says so in full and
// ends the input. After that, as after Close, it discards p: who waits for an
// answer learns from the connection that it is lost.
func (w *queueWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(p), nil
	}
	size := len(p)
	if len(w.buf) == 0 && w.writing == 0 { // mostly the pipe has room: no other goroutine need run
		p = p[tryWrite(w.file, p):]
		if len(p) == 0 {
			return size, nil
		}
	}
	if w.writing+len(w.buf)+len(p) > maxQueued {
		w.closed, w.buf = true, nil
		close(w.full)
		w.signal()
		return size, nil
	}
	w.buf = append(w.buf, p...)
	w.signal()
	return size, nil
}

// Close ends the input behind what is queued.
func (w *queueWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.signal()
	return nil
}

func (w *queueWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *queueWriter) loop() {
	defer func() { _ = w.file.Close() }()
	for range w.wake {
		for {
			w.mu.Lock()
			buf, closed := w.buf, w.closed
			w.buf, w.writing = nil, len(w.buf)
			w.mu.Unlock()
			if len(buf) == 0 {
				if closed {
					return
				}
				break
			}
			if _, err := w.file.Write(buf); err != nil {
				_ = w.Close() // the child is gone or going; its exit is reported elsewhere
				return
			}
		}
	}
}

// ring keeps the newest bytes written to it: max of them, at times twice as many.
type ring struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func newRing(max int) *ring { return &ring{max: max} }

// Write implements io.Writer and never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	r.buf = append(r.buf, p[max(0, len(p)-r.max):]...)
	if len(r.buf) > 2*r.max { // moved now and then only, not at every write
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-r.max:]...)
	}
	return n, nil
}

// tail returns the last lines as safe text of at most max bytes.
func (r *ring) tail(lines, max int) string {
	r.mu.Lock()
	text := strings.TrimSpace(string(r.buf))
	r.mu.Unlock()
	if len(text) > max {
		text = text[len(text)-max:]
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	all := strings.Split(text, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return core.Visible(strings.ReplaceAll(strings.Join(all, "\n"), "\r", ""), 0, true)
}

// The words of a line that says what went wrong: those that name an error before
// those that only say so.
var errorWords = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(\w*error|fatal|panic|\w*exception)\b`),
	regexp.MustCompile(`(?i)\b(cannot|can't|could not|failed|unable to|missing|not found|no such)\b`),
}

// words are the last lines, and before them the first one that speaks of an error
// where that is not among them: begins tells whether it is there.
func (r *ring) words(lines, max int) (text string, begins bool) {
	text = r.tail(lines, max)
	if cause := r.firstError(500); cause != "" && !strings.Contains(text, cause) {
		return cause + "\n…\n" + text, true
	}
	return text, false
}

// lastPage is among how many of the last lines the cause of a failure is looked
// for: what stands before them is of an earlier time.
const lastPage = 150

// firstError returns the first line of the last page that speaks of an error as
// safe text, at most max bytes of it; empty when none does.
func (r *ring) firstError(max int) string {
	r.mu.Lock()
	text := strings.TrimSpace(strings.ReplaceAll(string(r.buf), "\r", ""))
	r.mu.Unlock()
	lines := strings.Split(text, "\n")
	lines = lines[len(lines)-min(len(lines), lastPage):]
	for _, words := range errorWords {
		for _, line := range lines {
			if line = strings.TrimSpace(line); words.MatchString(line) {
				return core.Visible(line, max, false)
			}
		}
	}
	return ""
}
