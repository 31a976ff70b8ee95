package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/core/upstream"
)

// TestMain makes the test binary an MCP server when PML_TEST_SERVER says so:
// the tests start themselves as well and badly behaved children.
func TestMain(m *testing.M) {
	if mode := os.Getenv("PML_TEST_SERVER"); mode != "" {
		serve(mode)
		return
	}
	os.Exit(verify(m))
}

// verify runs the tests and finds goroutines that they left behind. On a busy
// machine some take seconds to end.
func verify(m *testing.M) int {
	skiptest.Overlap()
	skiptest.InMemory()
	code := m.Run()
	for tries := 1; code == 0; tries++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if tries == 60 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// child is the server's state.
type child struct {
	mu      sync.Mutex
	pending map[string]chan struct{}        // calls that wait to be cancelled
	answers map[string]chan json.RawMessage // answers to our own requests
	greeted json.RawMessage                 // the params of initialize, or the _meta of discover
	phone   net.Conn                        // to the test: it notices when we die
	deaf    atomic.Bool                     // nothing more is read
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Arguments struct {
			N    int    `json:"n"`
			Text string `json:"text"`
		} `json:"arguments"`
		Raw  json.RawMessage `json:"-"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func serve(mode string) {
	c := &child{pending: map[string]chan struct{}{}, answers: map[string]chan json.RawMessage{}}
	if addr := os.Getenv("PML_TEST_PHONE"); addr != "" {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			os.Exit(9)
		}
		c.phone = conn
		fmt.Fprintf(conn, "%s %d\n", mode, os.Getpid())
	}
	if behave, ok := badServers[mode]; ok {
		behave(c)
	}
	switch mode {
	case "mute":
		fmt.Fprintln(os.Stderr, "waiting for a database that is not there")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "banner":
		fmt.Println("Server listens on port 3000")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "other-json":
		fmt.Println(`{"hello":"world"}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "exits":
		fmt.Fprintln(os.Stderr, "missing configuration")
		os.Exit(7)
	case "gated": // answers only after the test lets it
		_, _ = c.phone.Read(make([]byte, 1))
	case "sleeper":
		_, _ = io.Copy(io.Discard, c.phone)
		return
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		startGrandchild()
		defer func() { select {} }() // neither EOF nor TERM ends it
	case "parent":
		startGrandchild()
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		defer func() { select {} }()
	case "host": // a pml whose server is deaf, to be killed
		m := upstream.New(upstream.Options{})
		self, _ := os.Executable()
		l := upstream.Launch{Name: "deaf", Workspace: os.TempDir(), Command: self, Env: []string{"PML_TEST_SERVER=deaf", "PML_TEST_PHONE=" + os.Getenv("PML_TEST_PHONE")}}
		_, err := m.Call(context.Background(), upstream.Request{Launch: l, Tool: "pid"})
		fmt.Fprintln(c.phone, "called", err)
		select {}
	case "chatty":
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20), "\nthe last words\n")
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var msg message
		if json.Unmarshal(line, &msg) != nil {
			continue
		}
		if mode == "stops-reading" {
			c.handle(mode, msg, line)
			if c.deaf.Load() {
				select {}
			}
			continue
		}
		go c.handle(mode, msg, line)
	}
}

func startGrandchild() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PML_TEST_SERVER=sleeper")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Start() != nil {
		os.Exit(8)
	}
}

func (c *child) send(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func (c *child) result(id json.RawMessage, result string) {
	c.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func text(s string) string {
	b, _ := json.Marshal(s)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, b)
}

func (c *child) handle(mode string, msg message, line []byte) {
	if strict, ok := strictServers[mode]; ok && strict(c, msg.Method) {
		return
	}
	if strings.HasPrefix(mode, "rich") && c.rich(mode, line) {
		return
	}
	switch msg.Method {
	case "server/discover":
		c.result(msg.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	case "initialize":
		if mode == "modern" {
			c.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method: initialize"}}`, msg.ID)
			return
		}
		if mode == "noisy" {
			c.send("Starting up…\n\x1b[32mready\x1b[0m\n{\"level\":\"info\",\"id\":1}\n[1,2]\nnull")
			fmt.Print("no newline before ")
		}
		c.result(msg.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"child","version":"1"}}`)
	case "notifications/cancelled":
		close(c.hold(msg.Params.RequestID))
	case "tools/list":
		if msg.Params.Cursor == "" {
			c.result(msg.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object","maximum":1.0},"annotations":{"readOnlyHint":true}}],"nextCursor":"2"}`)
			return
		}
		c.result(msg.ID, `{"tools":[{"name":"hang","description":"waits"}]}`)
	case "tools/call":
		c.call(msg, line)
	case "":
		c.mu.Lock()
		ch := c.answers[string(msg.ID)]
		c.mu.Unlock()
		if ch != nil {
			ch <- append(append(json.RawMessage{}, msg.Result...), msg.Error...)
		}
	}
}

func (c *child) call(msg message, line []byte) {
	args := msg.Params.Arguments
	switch msg.Params.Name {
	case "echo":
		var raw struct {
			Params struct {
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		_ = json.Unmarshal(line, &raw)
		c.result(msg.ID, text(string(raw.Params.Arguments)))
	case "pid":
		c.result(msg.ID, text(strconv.Itoa(os.Getpid())))
	case "env":
		b, _ := json.Marshal(os.Environ())
		c.result(msg.ID, text(string(b)))
	case "cwd":
		dir, _ := os.Getwd()
		c.result(msg.ID, text(dir))
	case "unknown-as-result":
		c.result(msg.ID, `{"isError":true,"content":[{"type":"text","text":"Tool unknown-as-result not found"}]}`)
	case "input":
		c.result(msg.ID, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}`)
	case "fail":
		c.result(msg.ID, `{"isError":true,"content":[{"type":"text","text":"no such city"}]}`)
	case "die":
		fmt.Fprintln(os.Stderr, "panic: out of cheese")
		os.Exit(3)
	case "mute-stdout":
		_ = os.Stdout.Close()
	case "bytewise":
		c.mu.Lock()
		for _, b := range []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", msg.ID, text("grüße €😀"))) {
			_, _ = os.Stdout.Write([]byte{b})
		}
		c.mu.Unlock()
	case "empty": // neither a result nor an error
		c.send(`{"jsonrpc":"2.0","id":%s}`, msg.ID)
	case "null":
		c.result(msg.ID, "null")
	case "twice":
		c.send(`{"jsonrpc":"2.0","id":%[1]s,"result":%[2]s}{"jsonrpc":"2.0","id":%[1]s,"result":%[3]s}`, msg.ID, text("first"), text("second"))
	case "big":
		c.send(`{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("é", args.N), msg.ID)
	case "hang":
		ch := c.hold(msg.ID)
		fmt.Fprintln(c.phone, "hanging")
		<-ch
		fmt.Fprintln(c.phone, "cancelled")
	case "progress":
		for i := 1; i <= 3; i++ {
			c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step %d"}}`, msg.Params.Meta.Token, i, i)
		}
		c.result(msg.ID, text("done"))
	case "ask": // requests of our own whose id is the caller's
		c.result(msg.ID, text(c.ask(msg.ID, args.Text)))
	case "changed":
		c.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.result(msg.ID, text("ok"))
	case "changed-often":
		for range 1000 {
			c.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		c.result(msg.ID, text("ok"))
	case "split": // a character in two writes
		c.mu.Lock()
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, text("grüße €"))
		i := strings.Index(line, "€") + 1
		fmt.Fprint(os.Stdout, line[:i])
		fmt.Fprintln(os.Stdout, line[i:])
		c.mu.Unlock()
	case "invalid-utf8":
		c.send("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\xffb\"}]}}", msg.ID)
	default:
		c.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unknown tool: %s"}}`, msg.ID, msg.Params.Name)
	}
}

// hold returns what ends a call; the cancellation may come before the call.
func (c *child) hold(id json.RawMessage) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, ok := c.pending[string(id)]
	if !ok {
		ch = make(chan struct{})
		c.pending[string(id)] = ch
	}
	return ch
}

// ask sends a request to the client and returns what it answers.
func (c *child) ask(id json.RawMessage, method string) string {
	ch := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.answers[string(id)] = ch
	c.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method)
	return string(<-ch)
}
