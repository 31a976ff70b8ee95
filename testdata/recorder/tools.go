package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// call is one call of a tool, and the log that it is written to.
type call struct {
	server, tool string
	args         map[string]any
	log          string
}

// key is what inc counts.
func (c call) key() string { return c.server + "\x00" + c.text("key") }

func (c call) text(name string) string {
	s, _ := c.args[name].(string)
	return s
}

func (c call) number(name string, limit float64) int {
	f, _ := c.args[name].(float64)
	return int(max(0, min(f, limit)))
}

// kind is what a tool's annotations say.
type kind int

const (
	reads      kind = iota // read-only
	repeats                // writes, but twice is as once
	writes                 // twice is not as once
	destroys               // destructive
	maxBytes   = 64 << 20
	maxItems   = 100_000
	maxMillis  = 600_000
	pollPeriod = 5 * time.Millisecond
)

type tool struct {
	name, description string
	kind              kind
	params            []mcp.ToolOption
	run               func(ctx context.Context, rec *recorder, c call, count int) (*mcp.CallToolResult, error)
}

func (t tool) define() mcp.Tool {
	opts := append([]mcp.ToolOption{
		mcp.WithDescription(t.description),
		mcp.WithReadOnlyHintAnnotation(t.kind == reads),
		mcp.WithIdempotentHintAnnotation(t.kind == reads || t.kind == repeats),
		mcp.WithDestructiveHintAnnotation(t.kind == destroys),
		mcp.WithOpenWorldHintAnnotation(false),
	}, t.params...)
	return mcp.NewTool(t.name, opts...)
}

var tools = []tool{
	{"echo", "Return the value.", reads, []mcp.ToolOption{mcp.WithAny("value")}, echo},
	{"read", "Return text made from the path; JSON for a path that ends in .json.", reads,
		[]mcp.ToolOption{mcp.WithString("path", mcp.Required())}, read},
	{"write", "Pretend to write a file. Its log line is the side effect.", writes,
		[]mcp.ToolOption{mcp.WithString("path", mcp.Required()), mcp.WithString("content")}, write},
	{"inc", "Count the calls with a key.", writes, []mcp.ToolOption{mcp.WithString("key", mcp.Required())}, inc},
	{"put", "Pretend to set a key to a value.", repeats,
		[]mcp.ToolOption{mcp.WithString("key", mcp.Required()), mcp.WithAny("value")}, put},
	{"fail", "Fail with a message.", reads, []mcp.ToolOption{mcp.WithString("message")}, fail},
	{"slow", "Return the value after some milliseconds.", reads,
		[]mcp.ToolOption{mcp.WithNumber("ms"), mcp.WithAny("value")}, slow},
	{"wait", "Return when a file exists.", reads, []mcp.ToolOption{mcp.WithString("file", mcp.Required())}, wait},
	{"hold", "Pretend to change something that takes until a file exists.", writes,
		[]mcp.ToolOption{mcp.WithString("file", mcp.Required())}, wait},
	{"big", "Return a text of many bytes.", reads, []mcp.ToolOption{mcp.WithNumber("bytes")}, big},
	{"list", "Return the array 0 … n-1.", reads, []mcp.ToolOption{mcp.WithNumber("n")}, list},
	{"texts", "Return several text contents.", reads, []mcp.ToolOption{mcp.WithArray("texts")}, texts},
	{"noise", "Print a line on stdout outside of the protocol, then answer.", reads,
		[]mcp.ToolOption{mcp.WithString("text")}, noise},
	{"danger", "Pretend to destroy something.", destroys, []mcp.ToolOption{mcp.WithString("x")}, danger},
}

// recorder runs tools and writes their logs.
type recorder struct {
	name string
	die  string // see main
	out  *lockedWriter
	logs sync.Map // path → *callLog
}

func (r *recorder) call(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	v, _ := r.logs.LoadOrStore(c.log, &callLog{path: c.log})
	log := v.(*callLog)
	i := indexOf(c.tool)
	if i < 0 {
		return nil, fmt.Errorf("no such tool: %s", c.tool)
	}
	n, count, err := log.start(c)
	if err != nil {
		return nil, err
	}
	if r.die != "" && os.Remove(r.die) == nil {
		os.Exit(3)
	}
	res, err := tools[i].run(ctx, r, c, count)
	event := "end"
	switch {
	case errors.Is(err, context.Canceled):
		event = "cancelled"
	case err != nil || res.IsError:
		event = "error"
	}
	if lerr := log.end(n, event, c); lerr != nil {
		return nil, lerr
	}
	return res, err
}

// described is what a test lets a tool say of itself.
type described struct {
	Description *string `json:"description"`
	ReadOnly    *bool   `json:"read_only"`
}

// describe changes the tools as a file says; no file changes nothing.
func describe(file string) error {
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var changes map[string]described
	if err := json.Unmarshal(raw, &changes); err != nil {
		return err
	}
	for name, c := range changes {
		i := indexOf(name)
		if i < 0 {
			return fmt.Errorf("%s: no such tool: %s", file, name)
		}
		if c.Description != nil {
			tools[i].description = *c.Description
		}
		if c.ReadOnly != nil && *c.ReadOnly {
			tools[i].kind = reads
		} else if c.ReadOnly != nil {
			tools[i].kind = writes
		}
	}
	return nil
}

func indexOf(name string) int {
	for i, t := range tools {
		if t.name == name {
			return i
		}
	}
	return -1
}

// structured answers with structured content and the same as text.
func structured(v map[string]any) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(v, string(text)), nil
}

func echo(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	return structured(map[string]any{"value": c.args["value"]})
}

func read(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	path := c.text("path")
	if path == "missing" {
		return mcp.NewToolResultError("no such file: missing"), nil
	}
	if strings.HasSuffix(path, ".json") {
		text, err := json.Marshal(map[string]any{"path": path, "size": len(path)})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(string(text)), nil
	}
	return mcp.NewToolResultText("content of " + path), nil
}

func write(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	return structured(map[string]any{"path": c.text("path"), "bytes": len(c.text("content"))})
}

func inc(_ context.Context, _ *recorder, c call, count int) (*mcp.CallToolResult, error) {
	return structured(map[string]any{"key": c.text("key"), "count": count})
}

func put(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	return structured(map[string]any{"key": c.text("key"), "value": c.args["value"]})
}

func fail(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	if m := c.text("message"); m != "" {
		return mcp.NewToolResultError(m), nil
	}
	return mcp.NewToolResultError("failed"), nil
}

func slow(ctx context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	timer := time.NewTimer(time.Duration(c.number("ms", maxMillis)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return structured(map[string]any{"value": c.args["value"]})
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func wait(ctx context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		if _, err := os.Stat(c.text("file")); err == nil {
			return structured(map[string]any{"file": c.text("file")})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func big(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(strings.Repeat("x", c.number("bytes", maxBytes))), nil
}

func list(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	items := make([]int, c.number("n", maxItems))
	for i := range items {
		items[i] = i
	}
	text, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(string(text)), nil
}

func texts(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	res := &mcp.CallToolResult{Content: []mcp.Content{}}
	items, _ := c.args["texts"].([]any)
	for _, it := range items {
		s, _ := it.(string)
		res.Content = append(res.Content, mcp.NewTextContent(s))
	}
	return res, nil
}

func noise(_ context.Context, r *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	if _, err := fmt.Fprintln(r.out, "noise: "+c.text("text")); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("after noise: " + c.text("text")), nil
}

func danger(_ context.Context, _ *recorder, c call, _ int) (*mcp.CallToolResult, error) {
	return structured(map[string]any{"done": c.args["x"]})
}
