// Command bare is a server of mcp-go that does next to nothing: echo, which only
// reads, and note, which does not, answer their text. It is the floor for what
// takes the same way through pml.
//
//	bare                   MCP over stdio
//	bare --http            MCP over HTTP at a free port; its URL is its only line on stdout
//	bare --through SERVER  passes the calls on, to a command that speaks stdio or to a URL,
//	                       and does nothing else: the floor for a gateway
//
// In any way it ends with its stdin, so at the latest with who started it.
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
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	overHTTP := flag.Bool("http", false, "serve HTTP instead of stdio")
	through := flag.String("through", "", "pass calls on to the server with this URL, or this command")
	flag.Parse()
	serve := func(s *server.MCPServer) error { return server.ServeStdio(s) }
	if *overHTTP {
		serve = serveHTTP
	}
	answer := func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	}
	var err error
	if *through != "" {
		answer, err = passOn(*through)
	}
	if err == nil {
		err = serve(newServer(answer))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

// passOn connects to a server and answers as that does.
func passOn(to string) (server.ToolHandlerFunc, error) {
	var c *client.Client
	var err error
	if strings.HasPrefix(to, "http://") {
		c, err = client.NewStreamableHttpClient(to, transport.WithHTTPBasicClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}))
	} else {
		c, err = client.NewStdioMCPClient(to, nil)
	}
	ctx := context.Background()
	if err == nil {
		err = c.Start(ctx)
	}
	if err == nil {
		_, err = c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
			ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "bare", Version: "1"},
		}})
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments}})
	}, nil
}

func newServer(answer server.ToolHandlerFunc) *server.MCPServer {
	s := server.NewMCPServer("bare", "1")
	for name, reads := range map[string]bool{"echo": true, "note": false} {
		tool := mcp.NewTool(name, mcp.WithString("text"),
			mcp.WithReadOnlyHintAnnotation(reads), mcp.WithDestructiveHintAnnotation(false), mcp.WithIdempotentHintAnnotation(false))
		s.AddTool(tool, answer)
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
