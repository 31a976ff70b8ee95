package upstream_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/upstream"
)

// BenchmarkCall compares a call through the Manager with one of the bare
// library, on the same server: one at a time, and a thousand at once.
func BenchmarkCall(b *testing.B) {
	l := launch(b, "good")
	m := newManager(b, nil)
	managed := func(b *testing.B) {
		if _, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: "echo", Args: json.RawMessage(`{"a":1}`)}); err != nil {
			b.Error(err)
		}
	}
	bare := bareClient(b, l)
	direct := func(b *testing.B) {
		var r mcp.CallToolRequest
		r.Params.Name, r.Params.Arguments = "echo", map[string]any{"a": 1}
		if _, err := bare.CallTool(context.Background(), r); err != nil {
			b.Error(err)
		}
	}
	for _, v := range []struct {
		name string
		call func(*testing.B)
	}{{"bare", direct}, {"managed", managed}} {
		v.call(b)
		b.Run("one/"+v.name, func(b *testing.B) {
			for b.Loop() {
				v.call(b)
			}
		})
		b.Run("thousand/"+v.name, func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() { v.call(b) })
				}
				wg.Wait()
			}
		})
	}
}

func bareClient(b *testing.B, l upstream.Launch) *client.Client {
	b.Helper()
	t := transport.NewStdioWithOptions(l.Command, l.Env, nil, transport.WithCommandFunc(func(_ context.Context, command string, env, _ []string) (*exec.Cmd, error) {
		cmd := exec.Command(command)
		cmd.Env = append(os.Environ(), env...)
		return cmd, nil
	}))
	c := client.NewClient(t, client.WithLegacyProtocolOnly()) //nolint:staticcheck // the same handshake as ours, for a fair comparison
	b.Cleanup(func() { _ = c.Close() })
	if err := c.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Initialize(context.Background(), mcp.InitializeRequest{}); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkCallRatio measures calls through the Manager, for all and on behalf
// of one client, and through the bare library in turns, so that all see the
// same machine, and reports the ratios of their medians: the budget is 1.2.
func BenchmarkCallRatio(b *testing.B) {
	l := launch(b, "good")
	m := newManager(b, nil)
	bare := bareClient(b, l)
	own := with(l, newHost("a", allCapabilities))
	for _, v := range []struct {
		name, tool, args string
		width, rounds    int
	}{
		{"one", "echo", `{"a":1}`, 1, 50}, {"32 at once", "echo", `{"a":1}`, 32, 50}, {"100 kB", "big", `{"n":50000}`, 1, 5},
		{"2 MB", "big", `{"n":1000000}`, 1, 2},
	} {
		managed := func(l upstream.Launch) func() error {
			return func() error {
				_, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: v.tool, Args: json.RawMessage(v.args)})
				return err
			}
		}
		direct := func() error {
			var r mcp.CallToolRequest
			r.Params.Name, r.Params.Arguments = v.tool, json.RawMessage(v.args)
			_, err := bare.CallTool(context.Background(), r)
			return err
		}
		ways := []func() error{direct, managed(l), managed(own)}
		b.Run(v.name, func(b *testing.B) {
			times := make([][]time.Duration, len(ways))
			round := func(keep bool) {
				for i, f := range ways {
					if timed := measure(b, f, v.width); keep {
						times[i] = append(times[i], timed...)
					}
				}
			}
			for n := range v.rounds {
				round(n > 0) // the first one warms up
			}
			for b.Loop() {
				round(true)
			}
			base, ours, peers := median(times[0]), median(times[1]), median(times[2])
			b.ReportMetric(float64(ours)/float64(base), "managed/bare")
			b.ReportMetric(float64(peers)/float64(base), "peer/bare")
			b.ReportMetric(float64(base.Microseconds()), "bare-µs")
			b.ReportMetric(float64(ours.Microseconds()), "managed-µs")
		})
	}
}

// measure makes calls at once, ten in a row each, and returns how long each took.
func measure(b *testing.B, f func() error, width int) []time.Duration {
	b.Helper()
	times := make([]time.Duration, 10*width)
	var wg sync.WaitGroup
	for i := range width {
		wg.Go(func() {
			for j := range 10 {
				began := time.Now()
				if err := f(); err != nil {
					b.Error(err)
				}
				times[10*i+j] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return times
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkResultFault is what it costs to compare a result with an output schema: a small
// one, and one of 200 KiB.
func BenchmarkResultFault(b *testing.B) {
	m := newManager(b, nil)
	tool := core.Tool{Server: "s", Name: "t", OutputSchema: json.RawMessage(
		`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}},"required":["id"]}}},"required":["rows"]}`)}
	for name, rows := range map[string]int{"Small": 3, "Large": 5000} {
		one := `{"id":1,"name":"` + strings.Repeat("x", 20) + `"}`
		result := json.RawMessage(`{"content":[],"structuredContent":{"rows":[` + one + strings.Repeat(","+one, rows-1) + `]}}`)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if fault := m.ResultFault(tool, result, true); fault != "" {
					b.Fatal(fault)
				}
			}
		})
	}
}
