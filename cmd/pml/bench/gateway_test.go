package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// BenchmarkGateway compares a call of an upstream tool through pml with the
// direct call of the same server over HTTP, in turn:
//
//	go test -run '^$' -bench Gateway -benchtime 2000x ./cmd/pml/bench
//
// The upstream server is a process of its own, as real ones are: a direct call
// crosses from process to process too. Names end in the way through pml: in
// read/stdio-http the client speaks stdio to pml, and pml HTTP to the server that
// the direct call goes to; in read/http-stdio the client speaks HTTP to a server
// of pml, which has started one of its own and speaks stdio to it.
//
// A read is not journaled. Its floor is a gateway of mcp-go that passes calls on the
// same way and does nothing else. A journaled call has its floor beside it: two bare
// commits of the same kind of store, one before the call and one with its outcome.
// Together are reads, 32 at a time, with the floor of a read.
func BenchmarkGateway(b *testing.B) {
	g := newGatewayBench(b)
	for _, w := range g.ways {
		b.Run("read/"+w.name, func(b *testing.B) { g.oneByOne(b, w, "echo", nil) })
	}
	for _, w := range g.ways {
		floor := bareStore(b, w.front == "http")
		b.Run("journaled/"+w.name, func(b *testing.B) { g.oneByOne(b, w, "note", floor) })
	}
	for _, w := range g.ways {
		b.Run("together/"+w.name, func(b *testing.B) { g.allAtOnce(b, w) })
	}
}

// oneByOne reports what a call takes; floor is nil where it has none.
func (g *gatewayBench) oneByOne(b *testing.B, w way, tool string, floor store.Writer) {
	var direct, through, passed, floors []time.Duration
	for range 50 {
		g.call(b, g.direct, tool)
		g.call(b, w.client, tool)
		g.call(b, w.bare, tool)
	}
	b.ResetTimer()
	for range b.N {
		direct = append(direct, g.call(b, g.direct, tool))
		through = append(through, g.call(b, w.client, tool))
		if floor != nil {
			floors = append(floors, twoCommits(b, floor))
		} else {
			passed = append(passed, g.call(b, w.bare, tool))
		}
	}
	d, t := middle(direct), middle(through)
	if p := middle(passed); p > 0 {
		b.ReportMetric(float64(p)/float64(d), "bare-ratio")
	}
	if f := middle(floors); f > 0 {
		b.ReportMetric(float64(f.Microseconds()), "two-commits-µs")
		b.ReportMetric(float64((t - d - f).Microseconds()), "more-than-floor-µs")
	}
	b.ReportMetric(float64(d.Microseconds()), "direct-µs")
	b.ReportMetric(float64(t.Microseconds()), "through-µs")
	b.ReportMetric(float64(t)/float64(d), "ratio")
	b.ReportMetric(float64((t - d).Microseconds()), "more-µs")
	b.ReportMetric(0, "ns/op")
}

// allAtOnce reports how many calls are made in a second.
func (g *gatewayBench) allAtOnce(b *testing.B, w way) {
	const turns = 10 // each begins with as many calls, so that both have the machine as it is
	n := max(b.N, 64) / turns * turns
	g.together(b, g.direct, 64)
	g.together(b, w.client, 64)
	g.together(b, w.bare, 64)
	var direct, through, passed time.Duration
	for range turns {
		direct += g.together(b, g.direct, n/turns)
		through += g.together(b, w.client, n/turns)
		passed += g.together(b, w.bare, n/turns)
	}
	b.ReportMetric(float64(n)/direct.Seconds(), "direct/s")
	b.ReportMetric(float64(n)/through.Seconds(), "through/s")
	b.ReportMetric(direct.Seconds()/through.Seconds(), "of-direct")
	b.ReportMetric(direct.Seconds()/passed.Seconds(), "bare-of-direct")
	b.ReportMetric(0, "ns/op")
}

// gatewayBench is a server, and the ways to it.
type gatewayBench struct {
	direct *client.Client
	ways   []way
}

// way is one through a process of pml with a home of its own. front is how the
// client speaks to it; bare is the same way through a gateway that does nothing else.
type way struct {
	name, front  string
	client, bare *client.Client
}

func newGatewayBench(b *testing.B) *gatewayBench {
	b.Helper()
	pml, bare := buildBench(b, "./cmd/pml"), buildBench(b, "./testdata/clients/bare")
	address := startBare(b, bare)
	to := map[string]string{"http": address, "stdio": bare}
	g := &gatewayBench{direct: benchClient(b, func() (*client.Client, error) {
		return overHTTP(b, address, &http.Transport{}, nil)
	})}
	for _, front := range []string{"stdio", "http"} {
		for _, upstream := range []struct {
			name  string
			entry map[string]any
		}{{"http", map[string]any{"type": "http", "url": address}}, {"stdio", map[string]any{"command": bare}}} {
			h := newGatewayHome(b, pml, upstream.entry)
			open := h.overStdio
			pass := func() (*client.Client, error) {
				return client.NewStdioMCPClient(bare, nil, "--through", to[upstream.name])
			}
			if front == "http" {
				open = h.overSocket
				pass = func() (*client.Client, error) {
					return overHTTP(b, startBare(b, bare, "--through", to[upstream.name]), &http.Transport{}, nil)
				}
			}
			g.ways = append(g.ways, way{front + "-" + upstream.name, front, benchClient(b, open), benchClient(b, pass)})
		}
	}
	return g
}

// startBare starts a server and returns its URL. The server ends with
// its stdin, so with this process even where that is killed.
func startBare(b *testing.B, bare string, args ...string) string {
	b.Helper()
	cmd := exec.Command(bare, append(args, "--http")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// gatewayHome is where a pml offers the tools of one server.
type gatewayHome struct {
	b             *testing.B
	pml, home, ws string
	env           []string
}

func newGatewayHome(b *testing.B, pml string, upstream map[string]any) *gatewayHome {
	b.Helper()
	dir, err := os.MkdirTemp("", "pml-bench-*") // b.TempDir is too long for a socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &gatewayHome{b: b, pml: pml, home: filepath.Join(dir, "home"), ws: filepath.Join(dir, "ws")}
	h.env = []string{"PML_HOME=" + h.home, "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "PML_WORKSPACE=" + h.ws, "PML_NO_AUTOSTART=1"}
	config, err := json.Marshal(map[string]any{
		"mcpServers":  map[string]any{"bench": upstream},
		"permissions": map[string]any{"allow": []string{"bench"}}, "expose": []string{"bench"},
	})
	if err == nil {
		err = os.Mkdir(h.ws, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(h.ws, ".pml.json"), config, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	if out, err := h.command("trust", "--yes").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return h
}

func (h *gatewayHome) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.pml, args...)
	cmd.Dir, cmd.Env = h.ws, h.env
	return cmd
}

// overStdio starts pml stdio and speaks to it.
func (h *gatewayHome) overStdio() (*client.Client, error) {
	return client.NewClient(transport.NewStdioWithOptions(h.pml, h.env, []string{"stdio"},
		transport.WithCommandFunc(func(_ context.Context, _ string, _, args []string) (*exec.Cmd, error) {
			return h.command(args...), nil
		}))), nil
}

// overSocket starts a server of pml and speaks to its socket.
func (h *gatewayHome) overSocket() (*client.Client, error) {
	serve := h.command("serve", "--idle", "1h") // where the benchmark is killed, it and its upstream server end too
	if err := serve.Start(); err != nil {
		return nil, err
	}
	h.b.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		_ = serve.Wait()
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(h.home, "pml.sock"))
	}
	pmltest.WaitFor(h.b, "the server listens", func() bool {
		conn, err := dial(h.b.Context(), "", "")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return overHTTP(h.b, "http://pml/mcp", &http.Transport{DialContext: dial}, map[string]string{api.HeaderWorkspace: (&url.URL{Path: h.ws}).EscapedPath()})
}

// overHTTP speaks to a server over connections that are kept, also those of calls
// that are made together.
func overHTTP(b *testing.B, address string, t *http.Transport, headers map[string]string) (*client.Client, error) {
	b.Helper()
	t.MaxIdleConnsPerHost = 64
	b.Cleanup(t.CloseIdleConnections)
	return client.NewStreamableHttpClient(address, transport.WithHTTPBasicClient(&http.Client{Transport: t}), transport.WithHTTPHeaders(headers))
}

func benchClient(b *testing.B, open func() (*client.Client, error)) *client.Client {
	b.Helper()
	c, err := open()
	if err == nil {
		err = c.Start(b.Context())
	}
	if err == nil {
		_, err = c.Initialize(b.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
			ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "bench", Version: "1"},
		}})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *gatewayBench) call(b *testing.B, c *client.Client, tool string) time.Duration {
	began := time.Now()
	if err := benchCall(b.Context(), c, tool); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func benchCall(ctx context.Context, c *client.Client, tool string) error {
	r, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": "hello"}}})
	if err == nil && r.IsError {
		raw, _ := json.Marshal(r)
		err = &api.PeerError{Message: string(raw)}
	}
	return err
}

// together makes calls, 32 at a time.
func (g *gatewayBench) together(b *testing.B, c *client.Client, n int) time.Duration {
	var group errgroup.Group
	group.SetLimit(32)
	began := time.Now()
	for range n {
		group.Go(func() error { return benchCall(b.Context(), c, "echo") })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// bareStore is a store as pml stdio has one, or as a server has.
func bareStore(b *testing.B, exclusive bool) store.Writer {
	b.Helper()
	s, err := bolt.Open(bolt.Options{
		Dir: b.TempDir(), Exclusive: exclusive, Clock: benchClock{}, NewID: benchID, PID: os.Getpid(), Process: "bench", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// twoCommits keeps what a call of an offered tool keeps, and nothing else.
func twoCommits(b *testing.B, w store.Writer) time.Duration {
	now := time.Now()
	run := core.Run{ID: benchID(), Workspace: "/ws", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now, UpdatedAt: now, Runner: "bench", Epoch: 1}
	record := core.Record{Seq: 1, Kind: core.RecordStarted, CallID: "a", Tool: "bench:note", Attempt: 1, Args: json.RawMessage(`{"text":"hello"}`), StartedAt: now, At: now}
	tasks := []core.TaskSpec{{ID: "a", Tool: record.Tool, Arguments: record.Args}}
	begin := store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1, Tasks: tasks}, Records: []core.Record{record}}
	began := time.Now()
	if err := w.Commit(b.Context(), begin); err != nil {
		b.Fatal(err)
	}
	run.State, run.EndedAt = core.RunComplete, &now
	record.Seq, record.Kind, record.Outcome, record.Result = 2, core.RecordSettled, core.OutcomeSuccess, record.Args
	if err := w.Commit(b.Context(), store.Step{Run: run, Records: []core.Record{record}}); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// middle is the median, 0 of nothing.
func middle(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
