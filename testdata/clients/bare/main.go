// Command bare is a server of mcp-go that does next to nothing: echo, which only
// reads, and note, which does not, answer their text. It is the floor for what
// takes the same way through pml.
//
//	bare           MCP over stdio
//	bare --http    MCP over HTTP at a free port; its URL is its only line on stdout
//
// Either way it ends with its stdin, so at the latest with who started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	overHTTP := flag.Bool("http", false, "serve HTTP instead of stdio")
	flag.Parse()
	serve := func(s *server.MCPServer) error { return server.ServeStdio(s) }
	if *overHTTP {
		serve = serveHTTP
	}
	if err := serve(newServer()); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("bare", "1")
	for name, reads := range map[string]bool{"echo": true, "note": false} {
		tool := mcp.NewTool(name, mcp.WithString("text"),
			mcp.WithReadOnlyHintAnnotation(reads), mcp.WithDestructiveHintAnnotation(false), mcp.WithIdempotentHintAnnotation(false))
		s.AddTool(tool, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		})
	}
	return s
}

func serveHTTP(s *server.MCPServer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	web := &http.Server{Handler: server.NewStreamableHTTPServer(s), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = web.Close()
	}()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
