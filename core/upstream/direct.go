package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// Calls of tools do not go through the library's client, only through its
// transports: it would encode the arguments four times and read the tool's
// schema again for each call.

// errNobodyToAsk is why a call failed that was answered with a request for input.
var errNobodyToAsk = errors.New("the server asked for input")

// send makes the request and waits for its end; the outcome is in the
// context's answer.
func (c *conn) send(ctx context.Context, req Request, meta map[string]json.RawMessage) error {
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
		return err
	}
	r := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: c.nextID(), Method: string(mcp.MethodToolsCall), Params: params}
	if c.modern {
		r.Header = c.callHeader(req.Tool, params)
	}
	resp, err := c.sendOwn(ctx, r)
	if err == nil && resp.Error == nil && wantsInput(resp.Result) {
		return errNobodyToAsk
	}
	return err
}

// sendOwn sends a request that the library does not count, and takes it back
// when its caller gives up: a transport over HTTP does that by itself.
func (c *conn) sendOwn(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if err := ctx.Err(); err != nil {
		if a := answerOf(ctx); a != nil {
			a.unsent = true
		}
		return nil, transport.NewError(err)
	}
	t := c.client.GetTransport()
	resp, err := t.SendRequest(ctx, req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil && c.proc != nil {
		var n mcp.JSONRPCNotification
		n.JSONRPC, n.Method = mcp.JSONRPC_VERSION, string(mcp.MethodNotificationCancelled)
		n.Params.AdditionalFields = map[string]any{"requestId": req.ID, "reason": "the caller has given up"}
		_ = t.SendNotification(c.life, n) // never blocks; the caller has its error
	}
	var wanting *inputError
	if errors.As(err, &wanting) {
		return nil, err
	}
	return nil, transport.NewError(err)
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
// of a connection is encoded once.
func (c *conn) callMeta(meta map[string]json.RawMessage, token string) ([]byte, error) {
	if !c.modern && len(meta) == 0 && token == "" {
		return nil, nil
	}
	if c.modern && len(meta) == 0 && token == "" {
		return c.standingMeta()
	}
	all := make(map[string]json.RawMessage, len(meta)+5)
	for name, value := range meta {
		all[name] = value
	}
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
	}
	return json.Marshal(all)
}

// standingMeta is what the newest revision wants to be told with each request,
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
