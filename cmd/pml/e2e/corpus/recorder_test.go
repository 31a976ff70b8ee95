package corpus_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// startStdio starts a recorder over stdio and shakes hands with it. stop ends it.
func startStdio(t *testing.T, bin, log string) (c *client.Client, stop func()) {
	t.Helper()
	tr := transport.NewStdioWithOptions(bin, nil, []string{"--name", "my-rec", "--log", log},
		transport.WithCommandFunc(func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
			return exec.CommandContext(ctx, command, args...), nil
		}))
	if err := tr.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	c = client.NewClient(tr)
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return c, func() { _ = c.Close() }
}

func callTool(t *testing.T, c *client.Client, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = name, args
	res, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// TestRecorder_Stdio: what the tests of pml rely on: counts that survive a
// restart, noise beside the protocol, annotations, and a faithful log.
func TestRecorder_Stdio(t *testing.T) {
	t.Parallel()
	bin, log := pmltest.Recorder(t), filepath.Join(t.TempDir(), "calls.jsonl")
	var counts []string
	for range 2 {
		c, stop := startStdio(t, bin, log)
		for range 2 {
			raw, err := json.Marshal(callTool(t, c, "inc", map[string]any{"key": "k"}).StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, string(raw))
		}
		stop()
	}
	want := []string{`{"count":1,"key":"k"}`, `{"count":2,"key":"k"}`, `{"count":3,"key":"k"}`, `{"count":4,"key":"k"}`}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts over a restart (-want +got):\n%s", diff)
	}

	c, stop := startStdio(t, bin, log)
	defer stop()
	if res := callTool(t, c, "noise", map[string]any{"text": "{"}); res.IsError {
		t.Error("noise: the answer is an error")
	}
	if res := callTool(t, c, "fail", map[string]any{"message": "m"}); !res.IsError {
		t.Error("fail: the answer is no error")
	}
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var readOnly []string
	for _, tool := range tools.Tools {
		if h := tool.Annotations.ReadOnlyHint; h != nil && *h {
			readOnly = append(readOnly, tool.Name)
		}
	}
	if diff := cmp.Diff("big echo fail list noise read slow texts wait", strings.Join(readOnly, " ")); diff != "" {
		t.Errorf("read-only tools (-want +got):\n%s", diff)
	}
	if calls := readLog(t, log); len(calls) != 6 || calls[5].End == 0 || calls[0].Server != "my-rec" {
		t.Errorf("log: %+v", calls)
	}
}

// TestRecorder_Cancelled: a call that is cancelled says so in the log.
func TestRecorder_Cancelled(t *testing.T) {
	t.Parallel()
	bin, log := pmltest.Recorder(t), filepath.Join(t.TempDir(), "calls.jsonl")
	url := startRecorder(t, bin, filepath.Dir(log))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		body := `{"server":"rec","tool":"slow","args":{"ms":60000},"log":"calls.jsonl"}`
		done <- post(ctx, url+"/call", body)
	}()
	waitForLog(t, log, `"event":"start"`)
	cancel()
	if err := <-done; err == nil {
		t.Error("the cancelled call was answered")
	}
	waitForLog(t, log, `"event":"cancelled"`)
}

// TestRecorder_TornLine: a recorder that was killed in the middle of a line
// (at a page of the file, when the line is long) spoils no other line.
func TestRecorder_TornLine(t *testing.T) {
	t.Parallel()
	bin, log := pmltest.Recorder(t), filepath.Join(t.TempDir(), "calls.jsonl")
	torn := `{"n":1,"event":"start","server":"my-rec","tool":"inc","args":{"key":"k"}}` + "\n" + `{"n":1,"event":"end","ser`
	if err := os.WriteFile(log, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	if calls := readLog(t, log); len(calls) != 1 || calls[0].End != 0 {
		t.Errorf("before the next process: %+v", calls)
	}
	c, stop := startStdio(t, bin, log)
	defer stop()
	callTool(t, c, "inc", map[string]any{"key": "k"})
	if calls := readLog(t, log); len(calls) != 2 || calls[0].End != 0 || calls[1].End != 3 {
		t.Errorf("after the next process: %+v", calls)
	}
}

// waitForLog reads a log of another process until it has a text.
func waitForLog(t *testing.T, log, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(3 * time.Minute)
	for {
		raw, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(raw), text) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the log never had %s: %s", text, raw)
		}
	}
}

func post(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
