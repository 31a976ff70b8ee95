package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// Peer is the client of an MCP edge as upstream servers see it through pml:
// what they may ask of it, and where what they say goes.
type Peer struct {
	// ID names its session. Peers that have declared capabilities have
	// connections to upstream servers of their own, so that what a server asks
	// reaches the one that it works for.
	ID string
	// Stateless is set for a client of a revision without sessions, from
	// 2026-07-28 on. Servers that have both eras are spoken to in the client's.
	Stateless bool
	// Capabilities are the ones that the client has declared and that servers
	// ask by: sampling, elicitation and roots, as in initialize; empty or {} for
	// none.
	Capabilities json.RawMessage
	// Ask passes a request of a server on (sampling/createMessage,
	// elicitation/create, roots/list) and returns the result as the client sent
	// it. A refusal of the client is a *PeerError. It ends with ctx.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// AskAll, when set, passes all questions of one round of a server on, under
	// the server's own keys, and returns the answers that the client brings, as it
	// brings them: of some, or under other keys. The server judges them.
	AskAll func(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)
	// Notify passes a notification of a server on (notifications/message,
	// notifications/resources/updated, …). It returns at once. Progress of a
	// call goes by its OfferedCall.
	Notify func(method string, params json.RawMessage)
}

// Question is one of a server to a client.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// PeerError is an error of JSON-RPC that passes through as it is. It is a type of
// its own, beside jsonrpc.Error, so that no error of a server reaches a client
// before the values of keys were taken out of it.
type PeerError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error. The message is foreign text.
func (e *PeerError) Error() string {
	return fmt.Sprintf("error %d: %s", e.Code, core.Visible(e.Message, 2000, true))
}

// Offer is what upstream servers have that a client gets under its own names.
type Offer struct {
	Tools []OfferedTool // in the order in which they are listed
	// Search says that Found is offered: tools that are not listed. The client finds
	// them with SearchTools and calls them with CallTool, by server:tool.
	Search bool
	Found  []OfferedTool
	// Resources and Prompts say whether a server of the offer has any; they are
	// listed and read by requests that are forwarded.
	Resources, Prompts, Completions, Logging bool
	// Problems are what could not be offered and why: names that collide,
	// servers that are not installed, not trusted or did not start.
	Problems []core.Fault
}

// The tools that stand for all those of an Offer that are found by search.
const (
	SearchTools = "search_tools"
	CallTool    = "call_tool"
)

// OfferedTool is a tool of an upstream server.
type OfferedTool struct {
	Name string // as its server calls it, which is how the client does
	Tool string // server:tool
	// Definition is the tool as its server lists it, whole.
	Definition json.RawMessage
}

// OfferedCall is a call of an offered tool.
type OfferedCall struct {
	Name string
	Args json.RawMessage
	// Meta is the request's _meta without the token for progress; may be empty.
	Meta json.RawMessage
	By   core.Actor
	Peer *Peer // may be nil: nobody can be asked
	// Progress is called with the server's progress; nil: the client does not want it.
	// It is never called after the call has returned.
	Progress func(message string, done, total float64)
}

// OfferedResult is how a call of an offered tool ended, if it did not fail.
type OfferedResult struct {
	// Raw is the server's result as it sent it, isError included.
	Raw json.RawMessage
	// Paused is set instead when the call waits for a decision: its run is gone
	// on with by continue, and its result is then that of the run.
	Paused *Result
}

// OfferedRaw takes the server's result out of the result of a run that made an
// offered call; ok is false for that of any other run.
func OfferedRaw(result json.RawMessage) (raw json.RawMessage, ok bool) {
	var tasks map[string]json.RawMessage
	if json.Unmarshal(result, &tasks) != nil || len(tasks) != 1 {
		return nil, false
	}
	for id, value := range tasks {
		raw, ok = value, strings.HasPrefix(id, core.OfferedTask)
	}
	return raw, ok
}

// Exposed is a server of which the configuration offers something, as it is
// known at the moment.
type Exposed struct {
	Name string
	// Known says that the rest is known: because the server runs (Live), or from
	// an earlier time.
	Known, Live bool
	// Ready says of one that is not known that nothing which can be told without
	// starting it speaks against that.
	Ready bool
	// Search says that the tools are found by search, and not listed.
	Search bool
	// Tools are those that the configuration offers and does not deny, in the
	// order in which the server lists them.
	Tools []OfferedTool
	// Resources, Prompts, Completions and Logging are what it has of that, and
	// what is offered of it.
	Resources, Prompts, Completions, Logging bool
	// Problems say what stands in the way of it, if anything does.
	Problems []core.Fault
}

// OwnTools are the names of pml's own tools for agents as they are listed, which no other tool can
// have beside them.
var OwnTools = []string{"workflow_status", "flow_status", "discover", "execute", "agent_delegate", "continue", "approval_response", "replan", "abort"}

// Merge puts what servers offer together. Of tools with one name, or the name of
// one of pml's own, none is offered: the problems name them and say what to do.
func Merge(servers []Exposed) Offer {
	var o Offer
	by := map[string][]string{}
	for _, s := range servers {
		o.Problems = append(o.Problems, s.Problems...)
		o.Resources, o.Prompts = o.Resources || s.Resources, o.Prompts || s.Prompts
		o.Completions, o.Logging = o.Completions || s.Completions, o.Logging || s.Logging
		o.Search = o.Search || s.Search
		if s.Search { // their names have the server's before them
			o.Found = append(o.Found, s.Tools...)
			continue
		}
		for _, t := range s.Tools {
			by[t.Name] = append(by[t.Name], t.Tool)
		}
	}
	for _, s := range servers {
		if s.Search {
			continue
		}
		for _, t := range s.Tools {
			own, all := slices.Contains(OwnTools, t.Name), by[t.Name]
			if !own && len(all) == 1 {
				o.Tools = append(o.Tools, t)
				continue
			}
			if all[0] == t.Tool { // once
				o.Problems = append(o.Problems, collision(t.Name, all, own))
			}
		}
	}
	return o
}

func collision(name string, all []string, own bool) core.Fault {
	shown := make([]string, len(all))
	for i, tool := range all {
		shown[i] = core.Visible(tool, 120, false)
	}
	message := strings.Join(shown, " and ") + " have the same name: none of them is offered"
	if own {
		message = strings.Join(shown, " and ") + " would hide pml's own " + name + ": not offered"
	}
	return core.Fault{Path: "expose", Message: message + "; name fewer tools in expose"}
}
