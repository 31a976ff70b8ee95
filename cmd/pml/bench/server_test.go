//go:build unix

package bench_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/client"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
	"github.com/casys-ai/pml/store/postgres"
)

var keptMost = flag.Int("kept", 10_000, "how many workflows the largest server of BenchmarkServer_Kept has kept")

// The benchmarks of this file ask the real server over its socket:
//
//	go test -run '^$' -bench Server_ -benchtime 500x ./cmd/pml/bench
//	go test -run '^$' -bench Server_Kept -benchtime 500x ./cmd/pml/bench -kept 100000

// served is a home with a server.
type served struct {
	b          *testing.B
	pml, url   string // url: of PostgreSQL, empty for the home's own database
	home, ws   string
	env        []string
	cmd        *exec.Cmd
	http       *http.Client
	client     *client.Client
	transports []*http.Transport
}

func newServed(b *testing.B, pml, url string) *served {
	b.Helper()
	dir, err := os.MkdirTemp("", "pml-bench-*") // b.TempDir is too long for a socket
	if err != nil {
		b.Fatal(err)
	}
	s := &served{b: b, pml: pml, url: url, home: filepath.Join(dir, "home"), ws: filepath.Join(dir, "ws")}
	s.env = []string{"PML_HOME=" + s.home, "PML_WORKSPACE=" + s.ws, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	b.Cleanup(func() { s.stop(); _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(s.ws, 0o700); err != nil {
		b.Fatal(err)
	}
	config := `{"permissions": {"allow": ["workspace:*"], "ask": ["workspace:write_file"]}}`
	if err := os.WriteFile(filepath.Join(s.ws, ".pml.json"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	trust := exec.Command(pml, "trust", "--yes")
	trust.Dir, trust.Env = s.ws, s.env
	if out, err := trust.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return s
}

// fill keeps runs in the store of a server that does not run: one task each,
// the last ones waiting for a person.
func (s *served) fill(finished, waiting int) {
	s.b.Helper()
	var st store.Store
	var err error
	if s.url == "" {
		st, err = bolt.Open(bolt.Options{Dir: s.home, Name: "server", Exclusive: true, Clock: benchClock{}, NewID: benchID, PID: os.Getpid(), Process: "bench"})
	} else {
		st, err = postgres.Open(s.b.Context(), postgres.Options{URL: s.url, Clock: benchClock{}, NewID: benchID, Logger: slog.New(slog.DiscardHandler)})
	}
	if err != nil {
		s.b.Fatal(err)
	}
	r, err := st.Register(s.b.Context())
	if err != nil {
		s.b.Fatal(err)
	}
	w := &workflows{b: s.b, store: st, name: "one task"} // a run without is named by its program
	limits := engine.Limits{
		Calls: 100, Concurrency: 4, Timeout: time.Minute, CallTimeout: time.Minute, ApprovalTTL: time.Hour, ResumeTTL: time.Hour,
		StopGrace: time.Second, IdleChild: time.Hour,
	}
	w.Engine = engine.New(engine.Options{
		Store: st, Runner: r.ID(), Clock: benchClock{}, NewID: benchID, Logger: slog.New(slog.DiscardHandler),
		Hosts:  func(string) (engine.Host, error) { return noop{}, nil },
		Limits: func(string) (engine.Limits, error) { return limits, nil },
	})
	var g errgroup.Group
	g.SetLimit(64)
	add := func(n int, tool string, until func(engine.Status) bool) {
		tasks, plan := layered(s.b, []int{1}, tool)
		for range n {
			g.Go(func() error {
				h, err := w.start(tasks, plan)
				if err == nil {
					_, err = h.Wait(context.Background(), until)
				}
				return err
			})
		}
	}
	add(finished, "n:read", engine.Ended)
	add(waiting, "n:ask", engine.Paused)
	if err := g.Wait(); err != nil {
		s.b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		s.b.Fatal(err)
	}
	if err := r.Close(); err != nil {
		s.b.Fatal(err)
	}
	if err := st.Close(); err != nil {
		s.b.Fatal(err)
	}
}

// start starts the server and waits until it answers.
func (s *served) start() {
	s.b.Helper()
	args := []string{"serve"}
	if s.url != "" {
		args = append(args, "--store", s.url)
	}
	s.cmd = exec.Command(s.pml, args...)
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = s.ws, s.env, os.Stderr
	if os.Getenv("PML_BENCH_LOG") == "" {
		s.cmd.Stderr = nil
	}
	if err := s.cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	socket := filepath.Join(s.home, "pml.sock")
	var err error
	if s.client, err = client.New(client.Options{Socket: socket, Workspace: s.ws, Checked: true, Clock: benchClock{}}); err != nil {
		s.b.Fatal(err)
	}
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	s.http, s.transports = &http.Client{Transport: t}, append(s.transports, t)
	pmltest.WaitFor(s.b, "the server answers", func() bool { _, err = s.client.Status(s.b.Context()); return err == nil })
}

func (s *served) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	if err := s.cmd.Wait(); err != nil {
		s.b.Error(err)
	}
	_ = s.client.Close()
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
	s.cmd = nil
}

// get reads an answer whole.
func (s *served) get(path string) []byte {
	resp, err := s.http.Get("http://pml" + path)
	if err != nil {
		s.b.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.b.Fatalf("%s: %d %v %s", path, resp.StatusCode, err, raw)
	}
	return raw
}

// execute runs a DAG of one call to its end.
func (s *served) execute() {
	r, err := s.client.Execute(s.b.Context(), api.ExecuteRequest{
		Tasks: []core.TaskSpec{{ID: "a", Tool: "workspace:stat", Arguments: json.RawMessage(`{"path":".pml.json"}`)}}, Wait: -1,
	})
	if err != nil || r.Status != api.StatusSuccess {
		s.b.Fatal(err, r.Error)
	}
}

// resident is the memory of the server, in MiB.
func (s *served) resident() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// onStores runs a benchmark on a server of each store.
func onStores(b *testing.B, f func(b *testing.B, s *served)) {
	pml := buildBench(b, "./cmd/pml")
	for _, name := range []string{"bbolt", "postgres"} {
		b.Run(name, func(b *testing.B) {
			url := ""
			if name == "postgres" {
				url = postgresURL(b)
			}
			f(b, newServed(b, pml, url))
		})
	}
}

// BenchmarkServer_List is GET /workflows with 10,000 workflows kept; the floor
// is a request that asks the store for nothing.
func BenchmarkServer_List(b *testing.B) {
	onStores(b, func(b *testing.B, s *served) {
		s.fill(10_000, 0)
		s.start()
		var page api.Page[core.Run]
		if err := json.Unmarshal(s.get("/api/v1/workflows"), &page); err != nil || page.Next == "" {
			b.Fatal(err, len(page.Items))
		}
		var own, floors []time.Duration
		for b.Loop() {
			timed(&own, func() { s.get("/api/v1/workflows") })
			timed(&floors, func() { s.get("/healthz") })
		}
		report(b, own, floors)
		b.ReportMetric(float64(own[len(own)*99/100].Microseconds())/1000, "p99-ms") // report has sorted it
		b.ReportMetric(float64(len(page.Items)), "items")
	})
}

// BenchmarkServer_Event is the time from when an event was made, before its
// commit, until a reader on the socket has it, while runs are executed one
// after the other.
func BenchmarkServer_Event(b *testing.B) {
	onStores(b, func(b *testing.B, s *served) {
		s.start()
		s.execute()
		var mu sync.Mutex
		var list []time.Duration
		snap, err := s.client.Snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.client.Events(ctx, "", api.Since{Server: snap.Seq}, true, func(e core.Event) error { // it ends with its context
				mu.Lock()
				list = append(list, time.Since(e.At))
				mu.Unlock()
				return nil
			})
		})
		for b.Loop() {
			s.execute()
		}
		cancel()
		wg.Wait()
		report(b, list, nil)
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, "p99-ms")
	})
}

// BenchmarkServer_Memory is what a server takes that has kept 10,000 finished
// workflows and 1,000 that wait: after its start, and when the 1,000 were started
// by itself and everything was listed once. 1,000 more have been executed then.
func BenchmarkServer_Memory(b *testing.B) {
	onStores(b, func(b *testing.B, s *served) {
		s.fill(10_000, 1000)
		s.start()
		s.get("/api/v1/workflows?limit=500")
		s.get("/api/v1/approvals")
		parked := s.resident()
		s.stop()
		s.url, s.home = fresh(b, s)
		s.fill(10_000, 0)
		s.start()
		var g errgroup.Group
		g.SetLimit(8)
		for i := range 1000 {
			g.Go(func() error {
				r, err := s.client.Execute(b.Context(), api.ExecuteRequest{
					Code: fmt.Sprintf(`await mcp.workspace.write_file({path: "a.txt", content: "%d"}); return 1`, i), Wait: -1,
				})
				if err == nil && r.Status != api.StatusApprovalRequired {
					err = fmt.Errorf("%s: %s", r.Status, r.Error)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		for range 1000 {
			s.execute()
		}
		s.get("/api/v1/workflows?limit=500")
		s.get("/api/v1/approvals")
		live := s.resident()
		for b.Loop() {
			s.get("/healthz")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(parked, "parked-MiB")
		b.ReportMetric(live, "MiB")
	})
}

// fresh is another database and home for a server.
func fresh(b *testing.B, s *served) (url, home string) {
	if s.url != "" {
		url = postgresURL(b)
	}
	if err := os.RemoveAll(filepath.Join(s.home, "server.db")); err != nil {
		b.Fatal(err)
	}
	return url, s.home
}

// BenchmarkServer_Kept is what a workflow of one call costs, with its request,
// while more and more are kept.
func BenchmarkServer_Kept(b *testing.B) {
	onStores(b, func(b *testing.B, s *served) {
		kept := 0
		for _, n := range []int{100, 1000, 10_000, 30_000, 100_000} {
			if n > *keptMost {
				break
			}
			s.fill(n-kept, 0)
			kept = n
			b.Run(strconv.Itoa(n), func(b *testing.B) {
				s.b = b
				s.start()
				defer s.stop()
				for range 20 {
					s.execute()
				}
				var list []time.Duration
				for b.Loop() {
					timed(&list, s.execute)
				}
				report(b, list, nil)
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, "p99-ms")
			})
			s.b = b
		}
	})
}
