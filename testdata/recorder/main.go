// Command recorder is the MCP server of the tests. It answers the same
// arguments with the same results and appends one JSON line to a log when a
// call starts and one when it ends, so that a test can say which calls ran,
// in which order, and how often, across processes that were killed.
//
//	recorder --name rec --log calls.jsonl               MCP over stdio
//	recorder --log calls.jsonl --http 127.0.0.1:0       MCP at /mcp, plain JSON at /call
//
// In HTTP mode it prints its URL on stdout, as its only line.
//
// For tests of what changes and what breaks: --env FILE writes its environment
// there, one variable a line; --tools FILE names a JSON object that changes
// what tools say of themselves ({"echo": {"description": "…", "read_only":
// false}}); --die FILE ends it at the next call if the file is there, which it
// then removes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type options struct {
	name, log, http string
	env, tools, die string
	delay           time.Duration
}

func main() {
	var opts options
	flag.StringVar(&opts.name, "name", "rec", "the server's name in the log")
	flag.StringVar(&opts.log, "log", "", "the file that calls are appended to")
	flag.StringVar(&opts.http, "http", "", "serve HTTP at this address instead of stdio")
	flag.StringVar(&opts.env, "env", "", "write the environment to this file")
	flag.StringVar(&opts.tools, "tools", "", "a JSON file with what tools say of themselves")
	flag.StringVar(&opts.die, "die", "", "end at a call if this file is there")
	flag.DurationVar(&opts.delay, "start-delay", 0, "wait before answering anything")
	flag.Parse()
	if err := run(opts); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(opts options) error {
	if opts.log == "" {
		return fmt.Errorf("--log FILE is required")
	}
	if err := describe(opts.tools); err != nil {
		return err
	}
	if opts.env != "" {
		if err := os.WriteFile(opts.env, []byte(strings.Join(os.Environ(), "\n")), 0o600); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A shared lock says for as long as it is held that a recorder still lives.
	alive := flock.New(opts.log + ".alive")
	if err := alive.RLock(); err != nil {
		return err
	}
	defer alive.Close()
	select {
	case <-time.After(opts.delay):
	case <-ctx.Done():
		return nil
	}
	rec := &recorder{name: opts.name, die: opts.die, out: &lockedWriter{w: os.Stdout}}
	if opts.http != "" {
		rec.out = &lockedWriter{w: io.Discard}
		return serveHTTP(ctx, rec, opts)
	}
	stdio := server.NewStdioServer(newServer(rec, opts.log))
	// The default of 5 workers would make the 6th of several calls wait.
	server.WithWorkerPoolSize(100)(stdio)
	err := stdio.Listen(ctx, os.Stdin, rec.out)
	if err == io.EOF || ctx.Err() != nil {
		return nil
	}
	return err
}

// newServer offers every tool over MCP, logged to one file.
func newServer(rec *recorder, logPath string) *server.MCPServer {
	s := server.NewMCPServer("recorder", "1.0.0", server.WithToolCapabilities(true))
	for _, t := range tools {
		s.AddTool(t.define(), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args := req.GetArguments()
			if args == nil {
				args = map[string]any{}
			}
			return rec.call(ctx, call{server: rec.name, tool: t.name, args: args, log: logPath})
		})
	}
	return s
}

// httpCall is the body of POST /call. Log names a file beside --log, so that
// one process serves many scripts.
type httpCall struct {
	Server string         `json:"server"`
	Tool   string         `json:"tool"`
	Args   map[string]any `json:"args"`
	Log    string         `json:"log"`
}

func serveHTTP(ctx context.Context, rec *recorder, opts options) error {
	ln, err := net.Listen("tcp", opts.http)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.NewStreamableHTTPServer(newServer(rec, opts.log), server.WithStateLess(true)))
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		answer(w, rec, r, opts.log)
	})
	fmt.Printf("http://%s\n", ln.Addr())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close() // tests end it at any time; nothing is lost but open answers
	}()
	if err := srv.Serve(ln); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func answer(w http.ResponseWriter, rec *recorder, r *http.Request, mainLog string) {
	var c httpCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	file := mainLog
	if c.Log != "" {
		if c.Log != filepath.Base(c.Log) || strings.HasPrefix(c.Log, ".") {
			http.Error(w, "log: a plain file name is needed", http.StatusBadRequest)
			return
		}
		file = filepath.Join(filepath.Dir(mainLog), c.Log)
	}
	if c.Args == nil {
		c.Args = map[string]any{}
	}
	if c.Server == "" {
		c.Server = rec.name
	}
	body := map[string]any{}
	res, err := rec.call(r.Context(), call{server: c.Server, tool: c.Tool, args: c.Args, log: file})
	if err != nil {
		body["error"] = err.Error()
	} else {
		body["result"] = res
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the caller is gone when this fails
}

// lockedWriter keeps the lines of the protocol and of noise apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
