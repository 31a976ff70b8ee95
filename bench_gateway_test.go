package pml_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sync/errgroup"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/bolt"
)

// BenchmarkGateway compares a call of an upstream tool through pml with the
// direct call of the same server over HTTP, in turn:
//
//	go test -run '^$' -bench Gateway -benchtime 2000x .
//
// A journaled call has its floor beside it: two bare commits of the same kind of
// store, one before the call and one with its outcome.
func BenchmarkGateway(b *testing.B) {
	g := newGatewayBench(b)
	for _, bench := range []struct {
		name, tool string
		client     *client.Client
		floor      store.Writer // nil: none
	}{
		{"read/stdio", "echo", g.stdio, nil}, {"read/http", "echo", g.socket, nil},
		{"journaled/stdio", "note", g.stdio, bareStore(b, false)}, {"journaled/http", "note", g.socket, bareStore(b, true)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var direct, through, floor []time.Duration
			for range 50 {
				g.call(b, g.direct, bench.tool)
				g.call(b, bench.client, bench.tool)
			}
			b.ResetTimer()
			for range b.N {
				direct = append(direct, g.call(b, g.direct, bench.tool))
				through = append(through, g.call(b, bench.client, bench.tool))
				if bench.floor != nil {
					floor = append(floor, twoCommits(b, bench.floor))
				}
			}
			d, t := middle(direct), middle(through)
			if f := middle(floor); f > 0 {
				b.ReportMetric(float64(f.Microseconds()), "two-commits-µs")
				b.ReportMetric(float64((t - d - f).Microseconds()), "more-than-floor-µs")
			}
			b.ReportMetric(float64(d.Microseconds()), "direct-µs")
			b.ReportMetric(float64(t.Microseconds()), "through-µs")
			b.ReportMetric(float64(t)/float64(d), "ratio")
			b.ReportMetric(float64((t - d).Microseconds()), "more-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, bench := range []struct {
		name   string
		client *client.Client
	}{{"together/stdio", g.stdio}, {"together/http", g.socket}} {
		b.Run(bench.name, func(b *testing.B) {
			const turns = 10 // each begins with as many calls, so that both have the machine as it is
			n := max(b.N, 64) / turns * turns
			var direct, through time.Duration
			for range turns {
				direct += g.together(b, g.direct, n/turns)
				through += g.together(b, bench.client, n/turns)
			}
			b.ReportMetric(float64(n)/direct.Seconds(), "direct/s")
			b.ReportMetric(float64(n)/through.Seconds(), "through/s")
			b.ReportMetric(direct.Seconds()/through.Seconds(), "of-direct")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// gatewayBench is a server, and three ways to it.
type gatewayBench struct{ direct, stdio, socket *client.Client }

func newGatewayBench(b *testing.B) *gatewayBench {
	b.Helper()
	upstream := server.NewMCPServer("bench", "1")
	for name, reads := range map[string]bool{"echo": true, "note": false} {
		tool := mcp.NewTool(name, mcp.WithString("text"), mcp.WithReadOnlyHintAnnotation(reads), mcp.WithDestructiveHintAnnotation(false), mcp.WithIdempotentHintAnnotation(false))
		upstream.AddTool(tool, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		})
	}
	web := httptest.NewServer(server.NewStreamableHTTPServer(upstream))
	b.Cleanup(web.Close)
	dir, err := os.MkdirTemp("", "pml-bench-*") // b.TempDir is too long for a socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	ws, home, pml := filepath.Join(dir, "ws"), filepath.Join(dir, "home"), buildBench(b, "./cmd/pml")
	env := []string{"PML_HOME=" + home, "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "PML_WORKSPACE=" + ws}
	config, err := json.Marshal(map[string]any{
		"mcpServers":  map[string]any{"bench": map[string]any{"type": "http", "url": web.URL + "/mcp"}},
		"permissions": map[string]any{"allow": []string{"bench"}}, "expose": []string{"bench"},
	})
	if err == nil {
		err = os.Mkdir(ws, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(ws, ".pml.json"), config, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	trust := exec.Command(pml, "trust", "--yes")
	trust.Dir, trust.Env = ws, env
	if out, err := trust.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	g := &gatewayBench{}
	g.direct = benchClient(b, func() (*client.Client, error) { return client.NewStreamableHttpClient(web.URL + "/mcp") })
	g.stdio = benchClient(b, func() (*client.Client, error) {
		return client.NewClient(transport.NewStdioWithOptions(pml, env, []string{"stdio"}, transport.WithCommandFunc(func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Dir, cmd.Env = ws, env
			return cmd, nil
		}))), nil
	})
	g.socket = benchClient(b, func() (*client.Client, error) { return overSocket(b, pml, home, ws, env) })
	return g
}

// overSocket starts a server of pml and speaks to its socket.
func overSocket(b *testing.B, pml, home, ws string, env []string) (*client.Client, error) {
	b.Helper()
	serve := exec.Command(pml, "serve")
	serve.Dir, serve.Env = ws, env
	if err := serve.Start(); err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		_ = serve.Wait()
	})
	socket := filepath.Join(home, "pml.sock")
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(limit) {
			return nil, err
		}
	}
	t := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	b.Cleanup(t.CloseIdleConnections)
	return client.NewStreamableHttpClient("http://pml/mcp", transport.WithHTTPBasicClient(&http.Client{Transport: t}),
		transport.WithHTTPHeaders(map[string]string{api.HeaderWorkspace: (&url.URL{Path: ws}).EscapedPath()}))
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
