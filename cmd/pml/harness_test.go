//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/about"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// asPML makes the test binary behave as pml. So the tests drive the real
// program, in processes of its own, with the race detector when they have it.
const asPML = "PML_TEST_AS_PML"

// patience bounds every wait of a test. It is far above what anything takes.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	// A sandbox child has an empty environment: it is known by its argument.
	if os.Getenv(asPML) != "" || len(os.Args) == 2 && os.Args[1] == sandboxCommand {
		about.Version = os.Getenv("PML_TEST_VERSION") // two versions in one test
		main()
		return
	}
	code := m.Run()
	if dir, err := built(); err == nil && dir != "" {
		_ = os.RemoveAll(dir) // a temporary folder; leftovers do no harm
	}
	os.Exit(code)
}

// built is the folder of what the tests build, made by the first that asks.
var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pml-e2e-*") })

var builtRecorder = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "recorder")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/casys-ai/pml/testdata/recorder").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the recorder: %w\n%s", err, out)
	}
	return bin, nil
})

// recorderBin builds the recorder once per test run.
func recorderBin(t testing.TB) string {
	t.Helper()
	bin, err := builtRecorder()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// requireTool returns the path of a program that a test needs. Without it the
// test is skipped, or fails when PML_TEST_REQUIRE=all says that nothing may be
// skipped.
func requireTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "needs "+name+" in PATH: "+err.Error())
	}
	return path
}

// missing skips a test for a reason, or fails it under PML_TEST_REQUIRE=all.
func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("PML_TEST_REQUIRE") == "all" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// machine is a home of pml and one workspace, with a recorder named rec.
type machine struct {
	t    testing.TB
	Dir  string // holds all of it
	Home string // PML_HOME
	WS   string // the workspace, and the current folder of pml
	Log  string // the calls that reached the recorder
	Env  []string
}

// config is a .pml.json, as far as tests need one.
type config struct {
	Permissions map[string]any            `json:"permissions,omitempty"`
	Approvals   map[string]any            `json:"approvals,omitempty"`
	Limits      map[string]any            `json:"limits,omitempty"`
	Servers     map[string]map[string]any `json:"mcpServers,omitempty"`
}

// allowRec lets everything of the recorder through but danger, which asks.
func allowRec() config {
	return config{Permissions: map[string]any{"allow": []string{"rec:*"}, "ask": []string{"rec:danger"}}}
}

// newMachine makes a machine whose workspace is configured and trusted. The
// server rec is added to the configuration.
func newMachine(t testing.TB, c config) *machine {
	t.Helper()
	m := bareMachine(t)
	m.configure(c)
	return m
}

// bareMachine makes a machine with an empty workspace.
func bareMachine(t testing.TB) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, Dir: dir, Home: filepath.Join(dir, "home"), WS: filepath.Join(dir, "ws"), Log: filepath.Join(dir, "calls.jsonl")}
	m.Env = []string{
		asPML + "=1", "PML_HOME=" + m.Home, "PML_WORKSPACE=" + m.WS, "HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"TMPDIR=" + os.TempDir(), "GOCOVERDIR=" + dir,
		// A process with the race detector waits a second before it exits.
		"GORACE=atexit_sleep_ms=0",
	}
	if err := os.Mkdir(m.WS, 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// rec is the entry of a recorder, with more fields on top.
func (m *machine) rec(more map[string]any) map[string]any {
	entry := map[string]any{"command": recorderBin(m.t), "args": []string{"--log", m.Log}}
	for k, v := range more {
		entry[k] = v
	}
	return entry
}

// configure writes .pml.json and trusts it.
func (m *machine) configure(c config) {
	m.t.Helper()
	m.writeConfig(c)
	m.ok("trust", "--yes")
}

// writeConfig writes .pml.json, without trusting it.
func (m *machine) writeConfig(c config) {
	m.t.Helper()
	servers := map[string]map[string]any{"rec": m.rec(nil)}
	for name, s := range c.Servers {
		if s == nil {
			delete(servers, name)
			continue
		}
		servers[name] = s
	}
	c.Servers = servers
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(".pml.json", string(raw))
}

// fakeNPM is a program that answers as npm does, without a network: every
// package has version 1.0.0 and one program, which is the recorder.
const fakeNPM = `#!/bin/sh
PATH=/usr/bin:/bin
name=$(sed -n 's/.*"dependencies":{"\([^"]*\)".*/\1/p' package.json)
echo "$1 $name" >> "LOG"
case "$1" in
install)
  h=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  echo '{"lockfileVersion":3,"packages":{"":{"dependencies":{"'$name'":"latest"}},"node_modules/'$name'":{"version":"1.0.0","integrity":"sha512-'$h'==","bin":{"'$name'":"cli"}}}}' > package-lock.json ;;
ci)
  mkdir -p node_modules/$name
  echo '{"version":"1.0.0","bin":{"'$name'":"cli"}}' > node_modules/$name/package.json
  printf '#!SHEBANG\nexec "RECORDER" --log "CALLS" "$@"\n' > node_modules/$name/cli
  chmod +x node_modules/$name/cli ;;
esac
`

// withNPM gives a machine a PATH that holds nothing but a fake npm, and returns
// the file with its command lines. shebang is the first line of the programs.
func (m *machine) withNPM(shebang string) string {
	m.t.Helper()
	bin, log := filepath.Join(m.Dir, "bin"), filepath.Join(m.Dir, "npm.log")
	if err := os.Mkdir(bin, 0o755); err != nil {
		m.t.Fatal(err)
	}
	text := strings.NewReplacer("LOG", log, "SHEBANG", shebang, "RECORDER", recorderBin(m.t), "CALLS", m.Log).Replace(fakeNPM)
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
	m.setenv("PATH", bin)
	return log
}

// npx is the entry of a server from the fake npm.
func npx(pkg string) map[string]any {
	return map[string]any{"command": "npx", "args": []string{"-y", pkg, "--name", pkg}}
}

// setenv sets a variable for all later runs of pml.
func (m *machine) setenv(name, value string) { m.Env = append(m.Env, name+"="+value) }

// write writes a file of the workspace and returns its path.
func (m *machine) write(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.WS, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// entry is one line of the recorder's log.
type entry struct {
	N      int             `json:"n"`
	Event  string          `json:"event"` // start, end, error, cancelled
	Server string          `json:"server"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	PID    int             `json:"pid"`
	At     time.Time       `json:"at"`
}

// entries reads the recorder's log.
func (m *machine) entries() []entry {
	m.t.Helper()
	raw, err := os.ReadFile(m.Log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	var out []entry
	for line := range bytes.Lines(raw) {
		var e entry
		if json.Unmarshal(line, &e) == nil { // the last one may be half written
			out = append(out, e)
		}
	}
	return out
}

// calls are the calls that reached the recorder, as "tool {arguments}".
func (m *machine) calls() []string {
	m.t.Helper()
	out := []string{}
	for _, e := range m.entries() {
		if e.Event == "start" {
			out = append(out, e.Tool+" "+string(e.Args))
		}
	}
	return out
}

// count is how many calls of a tool reached the recorder.
func (m *machine) count(tool string) int { return m.events(tool, "start") }

// events counts lines of the recorder's log.
func (m *machine) events(tool, event string) int {
	m.t.Helper()
	n := 0
	for _, e := range m.entries() {
		if e.Event == event && e.Tool == tool {
			n++
		}
	}
	return n
}

// command is pml with arguments, not started.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir, cmd.Env = m.WS, append([]string{}, m.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output is what a pml came to.
type output struct {
	t      testing.TB
	Args   []string
	Exit   int
	Stdout string
	Stderr string
}

// pml runs pml to its end.
func (m *machine) pml(args ...string) output {
	m.t.Helper()
	return m.start(args...).wait()
}

// ok runs pml and wants exit 0.
func (m *machine) ok(args ...string) output {
	m.t.Helper()
	return m.exit(0, args...)
}

// exit runs pml and wants an exit code.
func (m *machine) exit(code int, args ...string) output {
	m.t.Helper()
	return m.pml(args...).want(code)
}

// json runs pml with --json and returns the result on its stdout.
func (m *machine) json(code int, args ...string) api.Result {
	m.t.Helper()
	return m.exit(code, append(args, "--json")...).result()
}

// execute runs code with --json.
func (m *machine) execute(code int, script string, more ...string) api.Result {
	m.t.Helper()
	return m.json(code, append([]string{"execute", "--code", script}, more...)...)
}

// workflow is a run as workflows show gives it.
func (m *machine) workflow(id core.ID) core.Workflow {
	m.t.Helper()
	var w core.Workflow
	m.ok("workflows", "show", string(id), "--json").decode(&w)
	return w
}

// approvals are those that wait.
func (m *machine) approvals(more ...string) []core.Approval {
	m.t.Helper()
	var page api.Page[core.Approval]
	m.ok(append([]string{"approvals", "ls", "--json"}, more...)...).decode(&page)
	return page.Items
}

// want wants an exit code.
func (o output) want(code int) output {
	o.t.Helper()
	if o.Exit != code {
		o.t.Fatalf("pml %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(o.Args, " "), o.Exit, code, o.Stdout, o.Stderr)
	}
	return o
}

// decode reads stdout as JSON.
func (o output) decode(v any) {
	o.t.Helper()
	if err := json.Unmarshal([]byte(o.Stdout), v); err != nil {
		o.t.Fatalf("pml %s: stdout is not JSON: %v\nstdout: %s\nstderr: %s", strings.Join(o.Args, " "), err, o.Stdout, o.Stderr)
	}
}

// result reads stdout as a result.
func (o output) result() api.Result {
	o.t.Helper()
	var r api.Result
	o.decode(&r)
	return r
}

// fault is the error object that JSON output puts on stderr.
type fault struct {
	Code      core.Code       `json:"code"`
	Message   string          `json:"message"`
	Exit      int             `json:"exit"`
	Next      []string        `json:"next"`
	DecidedBy *core.DecidedBy `json:"decided_by"`
}

// fault reads the error of a command with --json: the last object on stderr.
func (o output) fault() fault {
	o.t.Helper()
	var v struct {
		Error fault `json:"error"`
	}
	text := o.Stderr
	if i := strings.LastIndex(text, "{\"error\""); i >= 0 {
		text = text[i:]
	} else if i := strings.LastIndex(text, "{\n"); i >= 0 {
		text = text[strings.Index(text, "{\n"):]
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&v); err != nil || v.Error.Code == "" {
		o.t.Fatalf("pml %s: no error object on stderr: %v\n%s", strings.Join(o.Args, " "), err, o.Stderr)
	}
	return v.Error
}

// process is a pml that runs.
type process struct {
	m      *machine
	args   []string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	out    buffer
	err    buffer
	once   sync.Once
	res    output
	done   chan struct{} // closed when it has ended
}

// start starts pml. What is left of it at the end of the test is killed.
func (m *machine) start(args ...string) *process {
	m.t.Helper()
	return m.startIn(m.WS, args...)
}

func (m *machine) startIn(dir string, args ...string) *process {
	m.t.Helper()
	limit := patience
	if len(args) > 0 && args[0] == "serve" {
		limit *= 5 // as long as its test
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p := &process{m: m, args: args, cancel: cancel, cmd: m.command(ctx, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.out, &p.err
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

// wait waits for the end. It may be called again.
func (p *process) wait() output {
	p.once.Do(func() {
		defer close(p.done)
		defer p.cancel()
		err := p.cmd.Wait()
		p.res = output{t: p.m.t, Args: p.args, Exit: p.cmd.ProcessState.ExitCode(), Stdout: p.out.String(), Stderr: p.err.String()}
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.res.Exit = 128 + int(status.Signal())
		}
		if err != nil && errors.Is(err, exec.ErrWaitDelay) {
			p.res.Stderr += "\n[harness: a child kept the output open]"
		}
	})
	return p.res
}

// ended is closed when the process has ended.
func (p *process) ended() <-chan struct{} { return p.done }

// signal sends a signal to pml alone. To one that has ended it is none.
func (p *process) signal(s syscall.Signal) {
	p.m.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.m.t.Fatal(err)
	}
}

// kill kills pml and all its descendants with -9, at once.
func (p *process) kill() {
	p.m.t.Helper()
	pids := descendants(p.m.t, p.cmd.Process.Pid)
	p.signal(syscall.SIGKILL)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	p.wait()
}

// descendants are the processes below one.
func descendants(t testing.TB, root int) []int {
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

// waitFor waits until a condition holds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// buffer is a bytes.Buffer for a writer and readers.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
