package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/singleflight"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonrpc"
)

const (
	// maxPages and maxTools bound what a server lists.
	maxPages     = 1000
	maxTools     = 20_000
	maxToolBytes = 64 << 20
	// remoteToolsTTL is how long the tools of an HTTP server are remembered: it
	// may have no way to say that they changed.
	remoteToolsTTL = time.Minute
)

// conn is one live connection, its handshake complete.
type conn struct {
	name    string
	key     key
	edition Edition // set before anybody gets it
	wire    wire
	// protocol and server are set by the handshake: what it said of itself.
	protocol, server string
	modern           bool     // it speaks the revision without a handshake
	noHandshake      bool     // it must not be spoken to in a session
	undiscovered     error    // what became of server/discover, used in the handshake only
	proc             *process // nil for HTTP
	clock            core.Clock
	log              *slog.Logger
	// lost is closed when no call can succeed any more.
	lost     chan struct{}
	lostOnce sync.Once
	end      ending             // set before lost is closed
	life     context.Context    // ends with what the server may ask
	cancel   context.CancelFunc // ends life
	root     string             // of the workspace
	// own is the client that the connection was made for alone, nil for one that
	// is shared; declared are its capabilities.
	own      *Peer
	declared map[string]json.RawMessage
	patience time.Duration // how long a question waits that belongs to no call
	// tell passes a notification on, nil for nowhere. It returns at once.
	tell    func(during *flight, method string, params json.RawMessage)
	serving serving
	news    news
	// beside runs something in the background, unless pml is stopping.
	beside func(f func())
	// greeting is the result of the handshake as it was sent.
	greeting     json.RawMessage
	capabilities Capabilities
	info         mcp.Implementation
	ids          atomic.Int64 // of all requests
	// changed is signalled when the server announces other tools.
	changed chan struct{}

	tokens  atomic.Int64
	sinks   sync.Map // progress token → *sink
	listing singleflight.Group

	mu    sync.Mutex
	level string // of the logs, for the newest revision
	// standing is the _meta of each request, at standingLevel.
	standing      json.RawMessage
	standingLevel string
	marked        map[string]*mcp.Tool // see markedTools
	leftOut       map[string]string    // why tools that it lists are none of its tools
	tools         *listed              // nil: not known
	expires       time.Time            // zero: until the server says so
	version       int                  // counts list_changed
}

// ending is why a connection was lost.
type ending int

const (
	endedItself ending = iota // the server, or the line to it
	endedFull                 // it does not read its input, or take answers
	endedByUs
	endedInPanic // something went wrong inside pml
)

func (c *conn) lose(why ending) {
	c.lostOnce.Do(func() {
		c.end = why
		close(c.lost)
	})
}

func (c *conn) isLost() bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

// close ends the connection and, for a child, its whole process group.
func (c *conn) close(grace time.Duration) error {
	c.lose(endedByUs)
	c.cancel()
	if c.proc == nil {
		return c.closeWire()
	}
	if c.end == endedItself {
		c.proc.settle() // what pml does to it is not how it ended
	}
	err := c.closeWire() // what waits for an answer fails now
	return errors.Join(err, c.proc.stop(grace))
}

// closeWire ends the way to the server. A panic in it does not leave a child
// behind.
func (c *conn) closeWire() (err error) {
	defer core.Recover(c.log, "a connection was closed", func(e *core.Error) { err = e }, "server", c.name)
	return c.wire.close()
}

// gone says what became of a connection that is lost, and during what, if
// anybody waited. It begins with a verb: its subject is the server.
func (c *conn) gone(during string) string {
	if during != "" {
		during = " while " + during
	}
	switch {
	case c.end == endedByUs:
		return "was stopped" + during
	case c.end == endedInPanic:
		return "was given up" + during + ": something went wrong inside pml, a defect of it; its log says more"
	case c.end == endedFull && c.proc == nil:
		return "was given up" + during + ": it asks without taking the answers"
	case c.end == endedFull:
		return "was given up" + during + ": it does not read its input"
	case c.proc == nil:
		return "lost the connection" + during
	}
	return "stopped" + during + ": " + c.proc.report()
}

// sink is where the progress of one call goes.
type sink struct {
	mu   sync.Mutex
	f    func(message string, done, total float64)
	over bool
}

// end makes sure that nothing is reported any more.
func (s *sink) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

// answer is what came back for one request, and what became of one that failed.
type answer struct {
	raw     json.RawMessage
	rpc     *jsonrpc.Error
	unsent  bool  // nothing was sent: the request may be made again
	held    error // why the request was kept from being sent
	tooLong bool  // set by the HTTP reader
	// refused is set when a connection for the request could not be opened over
	// HTTP, reached when one was: the server may have got it.
	refused, reached bool
	http             *httpFacts // nil: there was no response
}

// notMade reports whether it is certain that nothing of the request was written to
// the server.
func (a *answer) notMade() bool { return a.unsent || a.refused && !a.reached }

// wantsInput reports whether a result, which is valid JSON, asks for input: its type says so, however
// it is written, and whatever another member of that name says.
func wantsInput(result json.RawMessage) (wants bool) {
	result = bytes.TrimLeft(result, " \t\r\n")
	if len(result) == 0 || result[0] != '{' {
		return false
	}
	jsonrpc.EachMember(result, func(name, value []byte) {
		if value[0] == '"' && bytes.EqualFold(name, []byte("resultType")) {
			wants = wants || string(jsonrpc.Unquoted(value)) == "input_required"
		}
	})
	return wants
}

// cachedTools returns the tools if they are known.
func (c *conn) cachedTools() []core.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tools == nil {
		return nil
	}
	return c.tools.tools
}

// listTools returns the tools, from memory when they are known.
func (c *conn) listTools(ctx context.Context, timeout time.Duration) (*listed, error) {
	c.mu.Lock()
	if c.tools != nil && (c.expires.IsZero() || c.clock.Now().Before(c.expires)) {
		defer c.mu.Unlock()
		return c.tools, nil
	}
	c.mu.Unlock()
	// The listing belongs to all who wait for it, so none of them may cancel it.
	ch := c.listing.DoChan("tools", func() (tools any, err error) {
		// After a panic the group would end the process.
		defer core.Recover(c.log, "the tools of a server were read", func(e *core.Error) { tools, err = nil, e }, "server", c.name)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return c.fetchTools(ctx)
	})
	select {
	case <-ctx.Done():
		return nil, cancelled(ctx, "listing the tools of "+c.name)
	case res := <-ch:
		if res.Err != nil {
			return nil, res.Err
		}
		return res.Val.(*listed), nil
	}
}

func (c *conn) fetchTools(ctx context.Context) (*listed, error) {
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	tools := &listed{tools: []core.Tool{}, definitions: []Definition{}}
	seen, names, bytes := map[string]bool{}, map[string]bool{}, 0
	leftOut := map[string]string{}
	var cursor string
	for range maxPages {
		page, size, err := c.toolsPage(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if bytes += size; bytes > maxToolBytes {
			return nil, core.Errorf(core.CodeResultTooLarge, "server %q lists tools of more than %d bytes", c.name, maxToolBytes)
		}
		for _, raw := range page.Tools {
			d, err := readDefinition(c.name, raw)
			if err != nil {
				return nil, c.notMCP(err)
			}
			t := d.Tool
			if err := c.badHeaders(t); err != nil {
				c.log.Warn("a tool whose x-mcp-header annotations are not valid is left out", "server", c.name, "tool", core.Visible(t.Name, 120, false), "why", core.Visible(err.Error(), 300, false))
				leftOut[t.Name] = "its x-mcp-header annotations are not valid: " + core.Visible(err.Error(), 300, false)
				continue
			}
			if core.TooDeep(t.InputSchema) || core.TooDeep(t.OutputSchema) || core.TooDeep(t.Rest) {
				return nil, core.Errorf(core.CodeToolFailed, "server %q lists a tool %s whose schema is nested more than %d levels deep",
					c.name, core.Visible(t.Name, 80, false), core.MaxDepth)
			}
			if !names[t.Name] { // of two of a name the first is taken, here and in every lookup
				names[t.Name] = true
				tools.add(d)
			}
		}
		next := page.NextCursor
		if next == "" || seen[next] || len(tools.tools) >= maxTools {
			break
		}
		seen[next] = true
		cursor = next
	}
	marked := markedTools(tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked, c.leftOut = marked, leftOut
	if version == c.version && (c.proc != nil || c.clock != nil) {
		c.tools = tools
		if c.proc == nil {
			c.expires = c.clock.Now().Add(remoteToolsTTL)
		}
	}
	return tools, nil
}

// listed are the tools of a server.
type listed struct {
	tools       []core.Tool
	definitions []Definition
}

func (l *listed) add(d Definition) {
	l.tools = append(l.tools, d.Tool)
	l.definitions = append(l.definitions, d)
}

// wirePage is tools/list as it is sent, the definitions untouched.
type wirePage struct {
	Tools      []json.RawMessage `json:"tools"`
	NextCursor string            `json:"nextCursor"`
}

func (c *conn) notMCP(err error) error {
	return core.Errorf(core.CodeServerUnreachable, "server %q listed its tools in a form that is not MCP: %w", c.name, err)
}

func (c *conn) toolsPage(ctx context.Context, cursor string) (page wirePage, size int, err error) {
	var fields map[string]json.RawMessage
	if cursor != "" {
		text, err := json.Marshal(cursor)
		if err != nil {
			return page, 0, err
		}
		fields = map[string]json.RawMessage{"cursor": text}
	}
	a, err := c.request(ctx, string(mcp.MethodToolsList), fields)
	switch {
	case a.raw != nil:
		if err := json.Unmarshal(a.raw, &page); err != nil {
			return page, len(a.raw), c.notMCP(err)
		}
		return page, len(a.raw), nil
	case a.rpc != nil && a.rpc.Code == jsonrpc.CodeOverlong:
		return page, len(a.raw), core.Errorf(core.CodeResultTooLarge, "server %q lists too much at once: %s", c.name, a.rpc.Message)
	case a.rpc != nil && a.rpc.Code == mcp.METHOD_NOT_FOUND:
		return page, len(a.raw), nil // a server without tools
	case a.rpc != nil:
		return page, len(a.raw), core.Errorf(core.CodeServerUnreachable, "server %q did not list its tools: %s", c.name, core.Visible(a.rpc.Message, 2000, true))
	case ctx.Err() != nil:
		return page, len(a.raw), core.Errorf(core.CodeServerUnreachable, "server %q did not list its tools in time", c.name)
	}
	return page, len(a.raw), c.broken(a, err, "listing its tools")
}

// broken turns a transport's failure into an error. A child's connection is
// given up; over HTTP other requests may be fine.
func (c *conn) broken(a *answer, err error, during string) error {
	var coded *core.Error
	var odd *answerError
	switch {
	case a.tooLong:
		return core.Errorf(core.CodeResultTooLarge, "server %q sent too much while %s", c.name, during)
	case errors.As(err, &coded):
		return coded // from the Authorizer, or the server asks for authorization
	case errors.As(err, &odd):
		return core.Errorf(core.CodeServerUnreachable, "server %q is of no use for %s: %s", c.name, during, odd)
	}
	if c.proc != nil {
		c.lose(endedItself)
	}
	if c.isLost() {
		return core.Errorf(core.CodeServerUnreachable, "server %q %s", c.name, c.gone(during))
	}
	return core.Errorf(core.CodeServerUnreachable, "server %q cannot be reached while %s: %s", c.name, during, core.Visible(plain(err).Error(), 2000, true))
}

// cancelled is the error of a caller that gave up.
func cancelled(ctx context.Context, what string) *core.Error {
	return core.Errorf(core.CodeCancelled, "%s was cancelled: %w", what, context.Cause(ctx))
}
