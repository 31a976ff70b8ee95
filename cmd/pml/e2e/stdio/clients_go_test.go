//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// goSDK is the client of the official Go SDK.
type goSDK struct {
	t       testing.TB
	session *sdk.ClientSession
	cmd     *exec.Cmd
	log     pmltest.Buffer // the messages, as LoggingTransport writes them

	mu       sync.Mutex
	progress map[string]func(float64) // by token
	n        int
}

// withHeaders adds headers to requests.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// dialSDK connects the client, at most in the given revision if there is one.
func dialSDK(t testing.TB, to dialed, revision string) *goSDK {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	t.Cleanup(cancel)
	g := &goSDK{t: t, progress: map[string]func(float64){}}
	c := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, &sdk.ClientOptions{
		Capabilities:       &sdk.ClientCapabilities{},
		ElicitationHandler: to.Elicits.handler(),
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			token, _ := r.Params.ProgressToken.(string)
			g.mu.Lock()
			told := g.progress[token]
			g.mu.Unlock()
			if told != nil {
				told(r.Params.Progress)
			}
		},
	})
	var over sdk.Transport
	if to.URL != "" {
		over = &sdk.StreamableClientTransport{Endpoint: to.URL, HTTPClient: &http.Client{Transport: withHeaders(to.Headers)}}
	} else {
		g.cmd = to.command(ctx)
		over = &sdk.CommandTransport{Command: g.cmd}
	}
	var err error
	g.session, err = c.Connect(ctx, &sdk.LoggingTransport{Transport: over, Writer: &g.log}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

// handler answers questions as the drivers in node do; nil for a client that
// cannot be asked.
func (el *elicits) handler() func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	if el == nil {
		return nil
	}
	return func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		<-time.After(time.Duration(el.After) * time.Millisecond) // whoever reads takes time
		if el.Action != "accept" {
			return &sdk.ElicitResult{Action: el.Action}, nil
		}
		question, err := json.Marshal(r.Params)
		if err != nil {
			return nil, err
		}
		content, _ := approval(question)["content"].(map[string]any)
		return &sdk.ElicitResult{Action: el.Action, Content: content}, nil
	}
}

func (g *goSDK) version() string { return g.session.InitializeResult().ProtocolVersion }

func (g *goSDK) pid() int {
	if g.cmd == nil {
		return 0
	}
	return g.cmd.Process.Pid
}

func (g *goSDK) tools(ctx context.Context) (names []string, err error) {
	for tool, err := range g.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (g *goSDK) call(ctx context.Context, name string, args any, progress func(float64)) (json.RawMessage, error) {
	params := &sdk.CallToolParams{Name: name, Arguments: args}
	if progress != nil {
		g.mu.Lock()
		g.n++
		token := name + string(rune('a'+g.n))
		g.progress[token] = progress
		g.mu.Unlock()
		params.Meta = sdk.Meta{}
		params.SetProgressToken(token)
	}
	res, err := g.session.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	return structureOf(raw)
}

// late reads the log, in which requests name their tokens.
func (g *goSDK) late() int {
	tokens := map[string]json.RawMessage{} // by the id of the request
	var trace []traced
	for line := range strings.Lines(g.log.String()) {
		way, text, _ := strings.Cut(line, ": ")
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProgressToken json.RawMessage
				Meta          struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
		}
		if json.Unmarshal([]byte(text), &m) != nil {
			continue // the end of the connection
		}
		switch {
		case way == "write" && m.Params.Meta.ProgressToken != nil:
			tokens[string(m.ID)] = m.Params.Meta.ProgressToken
		case way == "read" && m.Method == "notifications/progress":
			trace = append(trace, traced{Progress: m.Params.ProgressToken})
		case way == "read" && m.Method == "" && tokens[string(m.ID)] != nil:
			trace = append(trace, traced{Answer: tokens[string(m.ID)]})
		}
	}
	if len(trace) == 0 {
		g.t.Error("nothing was logged")
	}
	return lateIn(trace)
}

func (g *goSDK) close() { _ = g.session.Close() } // its process may have been killed

// mcpGo is the client of mcp-go.
type mcpGo struct {
	client *mcpgo.Client
	agreed string
	cmd    *exec.Cmd

	mu       sync.Mutex
	progress map[string]func(float64) // by token, while the call is open
	tardy    int
	n        int
}

// dialMCPGo connects the client.
func dialMCPGo(t testing.TB, to dialed, options ...mcpgo.ClientOption) *mcpGo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pmltest.Patience)
	t.Cleanup(cancel)
	g := &mcpGo{progress: map[string]func(float64){}}
	var over transport.Interface
	if to.URL != "" {
		var err error
		if over, err = transport.NewStreamableHTTP(to.URL, transport.WithHTTPHeaders(to.Headers)); err != nil {
			t.Fatal(err)
		}
	} else {
		g.cmd = to.command(ctx)
		over = transport.NewStdioWithOptions(to.Command, nil, to.Args, transport.WithCommandFunc(
			func(context.Context, string, []string, []string) (*exec.Cmd, error) { return g.cmd, nil }))
	}
	g.client = mcpgo.NewClient(over, options...)
	g.client.OnNotification(g.notified)
	if err := g.client.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	res, err := g.client.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "mcp-go", Version: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	g.agreed = res.ProtocolVersion
	return g
}

// notified gets the notifications in their order, on the way to the answers.
func (g *mcpGo) notified(n mcp.JSONRPCNotification) {
	if n.Method != "notifications/progress" {
		return
	}
	token, _ := n.Params.AdditionalFields["progressToken"].(string)
	at, _ := n.Params.AdditionalFields["progress"].(float64)
	g.mu.Lock()
	defer g.mu.Unlock()
	if told := g.progress[token]; told != nil {
		told(at)
	} else {
		g.tardy++
	}
}

func (g *mcpGo) version() string { return g.agreed }

func (g *mcpGo) pid() int {
	if g.cmd == nil {
		return 0
	}
	return g.cmd.Process.Pid
}

func (g *mcpGo) tools(ctx context.Context) (names []string, err error) {
	res, err := g.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (g *mcpGo) call(ctx context.Context, name string, args any, progress func(float64)) (json.RawMessage, error) {
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: args}}
	if progress != nil {
		g.mu.Lock()
		g.n++
		token := name + string(rune('a'+g.n))
		g.progress[token] = progress
		g.mu.Unlock()
		defer func() { g.mu.Lock(); delete(g.progress, token); g.mu.Unlock() }()
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	res, err := g.client.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	if res == nil {
		return nil, errors.New("no result")
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	return structureOf(raw)
}

func (g *mcpGo) late() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tardy
}

func (g *mcpGo) close() { _ = g.client.Close() } // its process may have been killed
