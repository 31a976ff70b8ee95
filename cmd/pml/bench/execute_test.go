package bench_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/core/service"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// buildBench builds a command as it is released.
func buildBench(b *testing.B, pkg string) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "bin.exe")
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, pkg).CombinedOutput()
	if err != nil {
		b.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// commits counts the transactions of an engine.
type commits struct {
	store.Store
	n atomic.Int64
}

func (c *commits) Commit(ctx context.Context, s store.Step) error {
	c.n.Add(1)
	return c.Store.Commit(ctx, s)
}

type benchClock struct{}

func (benchClock) Now() time.Time { return time.Now() }

func benchID() core.ID { return core.ID(uuid.NewString()) }

// warm is the client half in this process, as a long-lived pml has it.
type warm struct {
	*service.Service
	pool  *sandbox.Pool
	count *commits
}

func newWarm(b *testing.B, pml, workspace string) *warm {
	b.Helper()
	return newWarmAt(b, pml, workspace, b.TempDir())
}

func newWarmAt(b *testing.B, pml, workspace, home string) *warm {
	b.Helper()
	st, err := bolt.Open(bolt.Options{Dir: home, Clock: benchClock{}, NewID: benchID, PID: os.Getpid(), Process: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	w := &warm{count: &commits{Store: st}, pool: sandbox.NewPool(sandbox.Options{Command: []string{pml, "__sandbox"}})}
	w.Service = service.Open(service.Options{
		Home: env.Home{Dir: home}, Workspace: env.Workspace{Dir: workspace, Source: "bench"}, Environ: env.OS(), Names: env.OSNames(),
		Store: w.count, Sandbox: w.pool, Clock: benchClock{}, NewID: benchID, LookPath: exec.LookPath,
		Logger: slog.New(slog.DiscardHandler), Version: "bench",
	})
	b.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	t, err := w.Setup.Workspace.Trust(b.Context())
	if err == nil && !t.Trusted && !t.Empty {
		err = w.Setup.Workspace.SetTrust(b.Context(), t.Digest, "")
	}
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func (w *warm) run(b *testing.B, code string) api.Result {
	b.Helper()
	r, err := w.Execute(b.Context(), api.ExecuteRequest{Code: code, Wait: -1, By: core.Actor{Who: "bench", Via: core.ViaCLI}})
	if err != nil || r.Status != api.StatusSuccess {
		b.Fatalf("%s: %v %s", r.Status, err, r.Error)
	}
	return r
}

// fallow waits until the pool has a child ready again, as it has whenever runs
// do not follow one another at once.
func (w *warm) fallow(b *testing.B) {
	b.Helper()
	if _, err := w.pool.Compile(b.Context(), "return 1", ""); err != nil {
		b.Fatal(err)
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func report(b *testing.B, list, floors []time.Duration) {
	b.Helper()
	m := median(list)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(m.Microseconds())/1000, "ms")
	if len(floors) > 0 {
		f := median(floors)
		b.ReportMetric(float64(f.Microseconds())/1000, "floor-ms")
		b.ReportMetric(float64(m)/float64(f), "x-floor")
	}
}

func timed(list *[]time.Duration, f func()) {
	began := time.Now()
	f()
	*list = append(*list, time.Since(began))
}

// BenchmarkExecute_OneCall executes a script with one call in a warm process
// on the shared store. The floor compiles and runs the script in a child that
// is ready and makes as many bare commits.
func BenchmarkExecute_OneCall(b *testing.B) {
	const code = `const s = await mcp.workspace.stat({ path: "go.mod" }); return s.type;`
	dir, err := filepath.Abs(".")
	if err != nil {
		b.Fatal(err)
	}
	w := newWarm(b, buildBench(b, "./cmd/pml"), dir)
	w.run(b, code)
	w.count.n.Store(0)
	w.run(b, code)
	each := int(w.count.n.Load())
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var list, floors []time.Duration
	for b.Loop() {
		w.fallow(b)
		timed(&list, func() { w.run(b, code) })
		w.fallow(b)
		timed(&floors, func() { bareRun(b, w.pool, db, code, each) })
	}
	report(b, list, floors)
	b.ReportMetric(float64(each), "commits")
}

func bareRun(b *testing.B, pool *sandbox.Pool, db *bbolt.DB, code string, commits int) {
	b.Helper()
	ctx, now := b.Context(), time.Now()
	c, err := pool.Compile(ctx, code, "")
	if err != nil {
		b.Fatal(err)
	}
	s, t, err := pool.Open(ctx, sandbox.Start{Script: c.Script, Now: now})
	if err != nil || len(t.Calls) != 1 {
		b.Fatal(err)
	}
	defer s.Close()
	if t, err = s.Deliver(ctx, []sandbox.Delivery{{Seq: 1, CallID: t.Calls[0].ID, Value: json.RawMessage(`{"type":"file"}`), At: now}}); err != nil || !t.Done {
		b.Fatal(err)
	}
	for range commits {
		if err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			n, err := bucket.NextSequence()
			if err != nil {
				return err
			}
			return bucket.Put(binary.BigEndian.AppendUint64(nil, n), []byte(strings.Repeat("x", 400)))
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExecute_ThousandCalls makes 1,000 calls in one Promise.all of a
// server over stdio. The floor is the bare library that makes them, all at once.
func BenchmarkExecute_ThousandCalls(b *testing.B) {
	rec, dir := buildBench(b, "./testdata/recorder"), b.TempDir()
	config, err := json.Marshal(map[string]any{
		"mcpServers":  map[string]any{"rec": map[string]any{"command": rec, "args": []string{"--log", filepath.Join(dir, "calls.jsonl")}}},
		"permissions": map[string]any{"allow": []string{"rec"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".pml.json"), config, 0o600); err != nil {
		b.Fatal(err)
	}
	w := newWarm(b, buildBench(b, "./cmd/pml"), dir)
	const code = `const l = await Promise.all(Array.from({ length: 1000 }, (_, i) => mcp.rec.echo({ value: i }))); return l.length;`
	w.run(b, code)
	bare := bareClient(b, rec, filepath.Join(b.TempDir(), "calls.jsonl"))
	var list, floors []time.Duration
	for b.Loop() {
		w.fallow(b)
		w.count.n.Store(0)
		timed(&list, func() { w.run(b, code) })
		timed(&floors, func() { bareCalls(b, bare, 1000, 1000) })
	}
	report(b, list, floors)
	b.ReportMetric(float64(w.count.n.Load()), "commits")
}

func bareClient(b *testing.B, bin, log string) *client.Client {
	b.Helper()
	tr := transport.NewStdioWithOptions(bin, nil, []string{"--log", log},
		transport.WithCommandFunc(func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
			return exec.Command(command, args...), nil
		}))
	if err := tr.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	c := client.NewClient(tr)
	b.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(b.Context(), mcp.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	return c
}

func bareCalls(b *testing.B, c *client.Client, n, atOnce int) {
	b.Helper()
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			var req mcp.CallToolRequest
			req.Params.Name, req.Params.Arguments = "echo", map[string]any{"value": i}
			_, err := c.CallTool(ctx, req)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// benchScript is a script of 100 lines as agents write them.
var benchScript = func() string {
	var s strings.Builder
	for i := range 10 {
		fmt.Fprintf(&s, `interface Entry%[1]d { name: string; size?: number }
const list%[1]d: Entry%[1]d[] = (await mcp.workspace.list_directory({ path: "src/%[1]d" })).entries;
const big%[1]d = list%[1]d.filter((e: Entry%[1]d) => (e.size ?? 0) > 1000);
let total%[1]d = 0;
for (const e of big%[1]d) {
  const { content } = await mcp.workspace.read_file({ path: `+"`src/%[1]d/${e.name}`"+` });
  total%[1]d += content.length;
}
if (total%[1]d > 100) console.log("part %[1]d", total%[1]d);
await Promise.all(big%[1]d.slice(0, 3).map((e) => mcp.workspace.stat({ path: e.name })));
`, i)
	}
	return s.String()
}()

// BenchmarkCompile_100Lines strips and analyses a script in a warm child.
func BenchmarkCompile_100Lines(b *testing.B) {
	pool := sandbox.NewPool(sandbox.Options{Command: []string{buildBench(b, "./cmd/pml"), "__sandbox"}})
	defer pool.Close()
	var list []time.Duration
	compile := func() {
		if _, err := pool.Compile(b.Context(), benchScript, "script.ts"); err != nil {
			b.Fatal(err)
		}
	}
	for range 5 {
		compile()
	}
	for b.Loop() {
		timed(&list, compile)
	}
	report(b, list, nil)
}

// BenchmarkCommand is what a person waits for, from the start of the process.
func BenchmarkCommand(b *testing.B) {
	pml, home := buildBench(b, "./cmd/pml"), b.TempDir()
	info, err := os.Stat(pml)
	if err != nil {
		b.Fatal(err)
	}
	fillApprovals(b, home, 1000)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"Version", []string{"version"}},
		{"ApprovalsLs1000", []string{"approvals", "ls", "--home", home}},
		{"QuickStart", []string{"execute", "--home", filepath.Join(home, "other"), "testdata/quickstart.ts"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var list []time.Duration
			for b.Loop() {
				cmd := exec.Command(pml, c.args...)
				cmd.Env = append(os.Environ(), "PML_HOME="+home)
				timed(&list, func() {
					if out, err := cmd.CombinedOutput(); err != nil {
						b.Fatalf("%v\n%s", err, out)
					}
				})
			}
			report(b, list, nil)
			b.ReportMetric(float64(info.Size())/1e6, "binary-MB")
		})
	}
	b.Run("IdleMemory", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(float64(idleMemory(b, pml, home))/1e6, "RSS-MB")
		}
	})
}

func fillApprovals(b *testing.B, home string, n int) {
	b.Helper()
	st, err := bolt.Open(bolt.Options{Dir: home, Clock: benchClock{}, NewID: benchID})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	now := time.Now().UTC()
	step := store.Step{Create: true, Run: core.Run{ID: benchID(), Workspace: "/w", Kind: core.KindCode, State: core.RunWaiting, CreatedAt: now, UpdatedAt: now}}
	step.Events = []core.Event{{Type: core.EventWorkflowStart, At: now, RunID: step.Run.ID}}
	for i := range n {
		step.Open = append(step.Open, core.Approval{
			ID: benchID(), RunID: step.Run.ID, Workspace: "/w", Type: core.ApproveTool, Subject: "rec:inc", Tool: "rec:inc",
			Description: "allow rec:inc", Context: json.RawMessage(fmt.Sprintf(`{"arguments":{"key":"k%d"}}`, i)), Digest: "d", CreatedAt: now,
		})
	}
	if err := st.Commit(b.Context(), step); err != nil {
		b.Fatal(err)
	}
}

// idleMemory is the resident memory of a process that waits and has no child.
func idleMemory(b *testing.B, pml, home string) int {
	b.Helper()
	cmd := exec.Command(pml, "events", "--follow", "--home", home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has shown what there is, and waits
		b.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
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
	return 0
}
