package upstream_test

import (
	"encoding/json"
	"fmt"
	"os"
)

const richCapabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"x":{"n":12345678901234567890}}`

// rich is a server that asks and tells its client things, and has resources,
// prompts and the rest. It reports whether it is done with a message.
func (c *child) rich(mode string, line []byte) bool {
	var msg struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(line, &msg)
	switch msg.Method {
	case "server/discover":
		c.greeted = msg.Params
		c.result(msg.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+richCapabilities+`,"instructions":"be nice","ttlMs":0,"cacheScope":"private"}`)
	case "initialize":
		if mode == "rich-modern" {
			c.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method: initialize"}}`, msg.ID)
			return true
		}
		c.greeted = msg.Params
		c.result(msg.ID, `{"protocolVersion":"2025-11-25","capabilities":`+richCapabilities+`,"instructions":"be nice","serverInfo":{"name":"rich","version":"1"}}`)
	case "tools/list":
		c.result(msg.ID, `{"tools":[{"name":"t","icons":[{"src":"data:,x"}],"inputSchema":{"type":"object","maximum":1.0},"execution":{"taskSupport":"required"},"_meta":{"n":1.10}},{"name":"t","inputSchema":{}}]}`)
	case "tools/call":
		c.richCall(msg.ID, line)
	case "subscriptions/listen":
		fmt.Fprintln(c.phone, string(msg.Params))
	case "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"prompts/list", "prompts/get", "completion/complete", "logging/setLevel":
		c.richRequest(msg.ID, msg.Method, msg.Params)
	default:
		return false
	}
	return true
}

func (c *child) richRequest(id json.RawMessage, method string, params json.RawMessage) {
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	var p struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(params, &p)
	if c.phone != nil {
		fmt.Fprintln(c.phone, method, p.URI)
	}
	switch p.URI {
	case "bad":
		c.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"Resource not found","data":{"uri":"bad","n":12345678901234567890}}}`, id)
	case "hang":
		<-c.hold(id)
		fmt.Fprintln(c.phone, "cancelled")
	case "die":
		os.Exit(3)
	default:
		c.result(id, fmt.Sprintf(`{"method":%q,"params":%s,"n":1.10}`, method, params))
	}
}

// richCall is a call of a tool of any name; what it does stands in its arguments.
func (c *child) richCall(id json.RawMessage, line []byte) {
	var msg struct {
		Params struct {
			Args struct {
				Ask    string            `json:"ask"`
				With   json.RawMessage   `json:"with"`
				Say    []json.RawMessage `json:"say"`
				Input  json.RawMessage   `json:"input"`
				Rounds int               `json:"rounds"`
				Do     string            `json:"do"`
			} `json:"arguments"`
			Meta      json.RawMessage `json:"_meta"`
			Responses json.RawMessage `json:"inputResponses"`
			State     json.RawMessage `json:"requestState"`
		} `json:"params"`
	}
	_ = json.Unmarshal(line, &msg)
	p := msg.Params
	for _, n := range p.Args.Say {
		c.send("%s", n)
	}
	switch {
	case p.Args.Do == "meta":
		c.result(id, text(string(p.Meta)))
	case p.Args.Do == "greeted":
		c.result(id, text(string(c.greeted)))
	case p.Args.Do == "fail":
		c.result(id, `{"isError":true,"content":[{"type":"text","text":"no such city"}],"_meta":{"n":1.10}}`)
	case p.Args.Do == "refuse":
		c.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"as a task only","data":[12345678901234567890]}}`, id)
	case p.Args.Do == "hang":
		<-c.hold(id)
		fmt.Fprintln(c.phone, "cancelled")
	case p.Args.Ask != "":
		go func() {
			answer := c.askWith(id, p.Args.Ask, p.Args.With)
			if c.phone != nil {
				fmt.Fprintln(c.phone, answer)
			}
			c.result(id, text(answer))
		}()
		if p.Args.Do == "take back" {
			fmt.Fprintln(c.phone, "asked")
			_, _ = c.phone.Read(make([]byte, 1)) // the client has been asked
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
			c.result(id, text("taken back"))
		}
	case p.Args.Input != nil && (p.Responses == nil || p.Args.Rounds > 1):
		c.result(id, fmt.Sprintf(`{"resultType":"input_required","inputRequests":%s,"requestState":"s-1"}`, p.Args.Input))
	case p.Args.Input != nil:
		c.result(id, text(fmt.Sprintf("%s %s", p.Responses, p.State)))
	default:
		c.result(id, text("ok"))
	}
}

// askWith asks the client and returns what it answers: the result or the error.
func (c *child) askWith(id json.RawMessage, method string, params json.RawMessage) string {
	ch := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.answers[string(id)] = ch
	c.mu.Unlock()
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	c.send(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	return string(<-ch)
}
