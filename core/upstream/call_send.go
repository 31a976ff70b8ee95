package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/casys-ai/pml/core"
)

// errNobodyToAsk is why a call failed that was answered with a request for input.
var errNobodyToAsk = errors.New("the server asked for input")

// send makes the request and waits for its end. The answer tells also what became
// of a request that failed.
func (c *conn) send(ctx context.Context, req Request, meta map[string]json.RawMessage) (*answer, error) {
	token := ""
	if req.Progress != nil {
		token = "p" + strconv.FormatInt(c.tokens.Add(1), 10)
		out := &sink{f: req.Progress}
		c.sinks.Store(token, out)
		defer func() {
			c.sinks.Delete(token)
			out.end()
		}()
	}
	params, err := c.callParams(req, meta, token)
	if err != nil {
		return &answer{}, err
	}
	r := c.newRequest(string(mcp.MethodToolsCall), params)
	r.before = func() error { return req.mayBeSent(ctx) }
	if c.modern {
		r.header = c.callHeader(req.Tool, params)
	}
	a, err := c.sendOwn(ctx, r)
	if err == nil && wantsInput(a.raw) {
		a.raw, err = nil, errNobodyToAsk
	}
	return a, err
}

// sendOwn sends a request, and takes it back when its caller gives up: a transport over HTTP does that by itself.
func (c *conn) sendOwn(ctx context.Context, req request) (*answer, error) {
	a := &answer{}
	if err := ctx.Err(); err != nil {
		a.unsent = true
		return a, transport.NewError(err)
	}
	m, err := c.exchange(ctx, req, a)
	if err == nil {
		if a.rpc = m.Err(); a.rpc == nil {
			a.raw = m.Result
		}
		return a, nil
	}
	if ctx.Err() != nil && c.proc != nil && a.held == nil {
		_ = c.wire.tell(c.life, takesBack(req)) // never blocks; the caller has its error
	}
	if _, ok := errors.AsType[*inputError](err); ok {
		return a, err
	}
	return a, transport.NewError(err)
}

// callParams are the params of a call, complete: nothing is added to them.
func (c *conn) callParams(req Request, meta map[string]json.RawMessage, token string) (json.RawMessage, error) {
	name, err := json.Marshal(req.Tool)
	if err != nil {
		return nil, err
	}
	about, err := c.callMeta(meta, token)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(name)+len(req.Args)+len(about)+40)
	text = append(append(text, `{"name":`...), name...)
	text = append(append(text, `,"arguments":`...), req.Args...)
	if len(about) > 0 {
		text = append(append(text, `,"_meta":`...), about...)
	}
	return append(text, '}'), nil
}

// callMeta is the _meta of a call, nil for none. What is the same for each call
// of a connection is encoded once. The level of the log is in it in the newest
// revision only: that of the call, else that of the connection.
func (c *conn) callMeta(meta map[string]json.RawMessage, token string) ([]byte, error) {
	level := meta[mcp.MetaKeyLogLevel]
	if level != nil && !c.modern {
		meta = maps.Clone(meta)
		delete(meta, mcp.MetaKeyLogLevel)
	}
	if !c.modern && len(meta) == 0 && token == "" {
		return nil, nil
	}
	if c.modern && len(meta) == 0 && token == "" {
		return c.standingMeta()
	}
	all := make(map[string]json.RawMessage, len(meta)+5)
	maps.Copy(all, meta)
	if token != "" {
		all["progressToken"] = json.RawMessage(strconv.Quote(token))
	}
	if c.modern {
		standing, err := c.standingMeta()
		if err == nil {
			err = json.Unmarshal(standing, &all)
		}
		if err != nil {
			return nil, err
		}
		if level != nil {
			all[mcp.MetaKeyLogLevel] = level
		}
	}
	return json.Marshal(all)
}

// standingMeta is the _meta that the newest revision asks for in each request,
// encoded; it must not be changed.
func (c *conn) standingMeta() (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing != nil && c.standingLevel == c.level {
		return c.standing, nil
	}
	declared := map[string]json.RawMessage{}
	if c.own != nil {
		declared = c.declared
	}
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion: c.protocol, mcp.MetaKeyClientCapabilities: declared, mcp.MetaKeyClientInfo: c.info,
	}
	if c.level != "" {
		meta[mcp.MetaKeyLogLevel] = c.level
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	c.standing, c.standingLevel = text, c.level
	return text, nil
}

// callHeader are the headers in which the newest revision repeats what a call
// is about, and the arguments that the tool's schema marks for it.
func (c *conn) callHeader(tool string, params json.RawMessage) http.Header {
	header := http.Header{mcp.HeaderMethod: {string(mcp.MethodToolsCall)}}
	if name, ok := mcp.EncodeHeaderValue(tool); ok {
		header.Set(mcp.HeaderName, name)
	}
	c.mu.Lock()
	marked := c.marked[tool]
	c.mu.Unlock()
	if marked != nil {
		for name, value := range mcp.GenerateParamHeaders(marked, params) {
			header.Set(name, value)
		}
	}
	return header
}

// badHeaders says what is wrong with the arguments that a tool marks to be repeated
// in headers, where they are: over HTTP in the newest revision.
func (c *conn) badHeaders(t core.Tool) error {
	if c.proc != nil || !c.modern || !bytes.Contains(t.InputSchema, []byte("x-mcp-header")) {
		return nil
	}
	return mcp.ValidateParamHeaderAnnotations(&mcp.Tool{Name: t.Name, RawInputSchema: t.InputSchema})
}

// markedTools are the tools whose schemas name arguments that are repeated in
// headers, as far as they do it by the rules.
func markedTools(all *listed) map[string]*mcp.Tool {
	var out map[string]*mcp.Tool
	for _, d := range all.definitions {
		if !bytes.Contains(d.Tool.InputSchema, []byte("x-mcp-header")) {
			continue
		}
		t := &mcp.Tool{Name: d.Tool.Name, RawInputSchema: d.Tool.InputSchema}
		if mcp.ValidateParamHeaderAnnotations(t) != nil {
			continue
		}
		if out == nil {
			out = map[string]*mcp.Tool{}
		}
		out[t.Name] = t
	}
	return out
}
