package bench_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The benchmarks of this file are an agent's host with pml stdio, beside the
// same host with what does nothing else:
//
//	go test -run '^$' -bench MCP_ -benchtime 50x ./cmd/pml/bench

// lines is a server over stdio, as a host has it.
type lines struct {
	b   *testing.B
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

// spawn starts a server, shakes hands and lists its tools.
func spawn(b *testing.B, dir string, env []string, bin string, args ...string) *lines {
	b.Helper()
	l := &lines{b: b, cmd: exec.Command(bin, args...)}
	l.cmd.Dir, l.cmd.Env = dir, env
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	l.out = bufio.NewReaderSize(out, 1<<20)
	if err := l.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	l.ask("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}})
	l.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	l.ask("tools/list", map[string]any{})
	return l
}

func (l *lines) write(v any) {
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = l.in.Write(append(raw, '\n'))
	}
	if err != nil {
		l.b.Fatal(err)
	}
}

// send sends a request and does not wait for its answer.
func (l *lines) send(method string, params any) {
	l.n++
	l.write(map[string]any{"jsonrpc": "2.0", "id": l.n, "method": method, "params": params})
}

// next is the next answer's result.
func (l *lines) next() json.RawMessage {
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		l.b.Fatal(err)
	}
	var v struct{ Result json.RawMessage }
	if err := json.Unmarshal(line, &v); err != nil || v.Result == nil {
		l.b.Fatalf("%.300s (%v)", line, err)
	}
	return v.Result
}

func (l *lines) ask(method string, params any) json.RawMessage {
	l.send(method, params)
	return l.next()
}

// call calls a tool and wants a text in its answer.
func (l *lines) call(name string, args map[string]any, want string) {
	if raw := l.ask("tools/call", map[string]any{"name": name, "arguments": args}); !strings.Contains(string(raw), want) {
		l.b.Fatalf("%.500s", raw)
	}
}

func (l *lines) end() {
	_ = l.in.Close()
	_ = l.cmd.Wait() // one that was stopped in the middle of calls says so
}

// hosted is a folder that pml stdio works in, without servers of its own.
func hosted(b *testing.B, pml string) (dir string, env []string) {
	b.Helper()
	root := b.TempDir()
	dir = filepath.Join(root, "ws")
	env = []string{"PML_HOME=" + filepath.Join(root, "home"), "PML_WORKSPACE=" + dir, "HOME=" + root, "PATH=" + os.Getenv("PATH"), "PML_NO_AUTOSTART=1"}
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	config := `{"permissions": {"allow": ["workspace:*"], "ask": ["workspace:write_file"]}}`
	if err := os.WriteFile(filepath.Join(dir, ".pml.json"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	trust := exec.Command(pml, "trust", "--yes")
	trust.Dir, trust.Env = dir, env
	if out, err := trust.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return dir, env
}

// BenchmarkMCP_Start is what a host waits for: from the start of the process to
// its list of tools. The floor is a server that offers two tools; beside it
// stands a program that does nothing.
func BenchmarkMCP_Start(b *testing.B) {
	pml, bare, empty := buildBench(b, "./cmd/pml"), buildBench(b, "./testdata/clients/bare"), buildBench(b, "./testdata/clients/empty")
	dir, env := hosted(b, pml)
	var list, floors, nothing []time.Duration
	for b.Loop() {
		var l *lines
		timed(&list, func() { l = spawn(b, dir, env, pml, "stdio") })
		l.end()
		timed(&floors, func() { l = spawn(b, dir, env, bare) })
		l.end()
		timed(&nothing, func() {
			if err := exec.Command(empty).Run(); err != nil {
				b.Fatal(err)
			}
		})
	}
	report(b, list, floors)
	b.ReportMetric(float64(median(nothing).Microseconds())/1000, "empty-ms")
}

// BenchmarkMCP_Execute is a script of one call, through pml stdio that runs:
// one after the other, and after a pause as agents make them, in which pml gets
// the next sandbox ready. The floor is a call of a server that does nothing
// else.
func BenchmarkMCP_Execute(b *testing.B) {
	pml, bare := buildBench(b, "./cmd/pml"), buildBench(b, "./testdata/clients/bare")
	dir, env := hosted(b, pml)
	p, f := spawn(b, dir, env, pml, "stdio"), spawn(b, dir, env, bare)
	b.Cleanup(p.end)
	b.Cleanup(f.end)
	n := 0
	once := func() {
		n++
		p.call("execute", map[string]any{"code": fmt.Sprintf(`return (await mcp.workspace.stat({path: ".pml.json"})).type + %d`, n)}, fmt.Sprint("file", n))
	}
	for range 10 {
		once()
	}
	for _, c := range []struct {
		name  string
		pause time.Duration
	}{{"AtOnce", 0}, {"AfterPause", 100 * time.Millisecond}} {
		b.Run(c.name, func(b *testing.B) {
			var list, floors []time.Duration
			for b.Loop() {
				<-time.After(c.pause)
				timed(&list, once)
				timed(&floors, func() { f.call("echo", map[string]any{"text": "hello"}, "hello") })
			}
			report(b, list, floors)
		})
	}
}

// BenchmarkMCP_Waiting is the memory of one pml stdio with 1,000 runs that wait
// for a person: with their calls answered one after the other, and with all of
// them begun at once and open.
func BenchmarkMCP_Waiting(b *testing.B) {
	const waiting = 1000
	pml := buildBench(b, "./cmd/pml")
	for _, c := range []struct {
		name string
		wait int
	}{{"Answered", 0}, {"Open", 3_600_000}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				dir, env := hosted(b, pml)
				l := spawn(b, dir, env, pml, "stdio")
				for i := range waiting {
					args := map[string]any{"code": fmt.Sprintf(`await mcp.workspace.write_file({path: "%d", content: "x"})`, i)}
					if c.wait > 0 {
						args["options"] = map[string]any{"wait": c.wait}
					}
					l.send("tools/call", map[string]any{"name": "execute", "arguments": args})
					if c.wait == 0 {
						l.next()
					}
				}
				allWait(b, waiting, pml, dir, env)
				b.ReportMetric(float64(residentOf(b, l.cmd.Process.Pid))/1e6, "RSS-MB")
				b.ReportMetric(0, "ns/op")
				if c.wait > 0 {
					_ = l.cmd.Process.Kill() // its calls would have two seconds to end
				}
				l.end()
			}
		})
	}
}

// allWait returns when so many approvals are open.
func allWait(b *testing.B, n int, pml, dir string, env []string) {
	b.Helper()
	limit, look := time.After(2*time.Minute), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for waitingRuns(pml, dir, env) != n {
		select {
		case <-look.C:
		case <-limit:
			b.Fatalf("%d do not all wait", n)
		}
	}
}

// waitingRuns is how many approvals pml has open, as another process sees it;
// none where it does not get at the store.
func waitingRuns(pml, dir string, env []string) int {
	cmd := exec.Command(pml, "approvals", "ls", "-o", "jsonl")
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(out), "\n")
}

// residentOf is the resident memory of a process.
func residentOf(b *testing.B, pid int) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("only where /proc tells of memory:", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
