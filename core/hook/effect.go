package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// effect is what a hook does beside deciding: one of four of pml's own, or the call of
// a tool that the flow lists under uses.
type effect struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// effects carries out the effects of a node, in order, before the call goes on. One
// that fails is a broken hook. A block keeps its effects; in audit mode there are none.
func (e *execution) effects(ctx context.Context, in flow.Input, out flow.Output, list []effect) (flow.Output, error) {
	for _, f := range list {
		if in.Flow.Mode == flow.Audit {
			out.Console = append(out.Console, "not done in audit mode: the effect "+f.Tool)
			continue
		}
		if err := e.effect(ctx, in, &out, f); err != nil {
			return out, core.Errorf(core.CodeOf(err), "its effect %s failed: %w", core.Visible(f.Tool, 80, false), err)
		}
	}
	return out, nil
}

// effect carries out one effect. A tool that is no effect of pml's own must be listed by
// the flow under uses, which people see when they trust the flow.
func (e *execution) effect(ctx context.Context, in flow.Input, out *flow.Output, f effect) error {
	if len(f.Arguments) == 0 {
		f.Arguments = json.RawMessage("{}")
	}
	switch f.Tool {
	case "log":
		return e.log(in, f.Arguments)
	case "audit":
		return e.audit(ctx, in, f.Arguments)
	case "count":
		return e.count(ctx, in, out, f.Arguments)
	case "cache":
		return e.cached(in, out, f.Arguments)
	}
	switch {
	case !slices.Contains(in.Flow.Uses, f.Tool):
		return core.Errorf(core.CodeHookFailed, "there is no such effect, and the flow does not list this tool under uses")
	case e.r.o.Tool == nil:
		return core.Errorf(core.CodeHookFailed, "effects by tools are not available here")
	case !isObject(f.Arguments):
		return core.Errorf(core.CodeHookFailed, "its arguments must be an object")
	}
	waits, err := e.r.o.Tool(ctx, ToolCall{Tool: f.Tool, Args: f.Arguments, Request: in.Request, Flow: in.Flow.ID, FlowRun: in.Run})
	if err == nil && waits != "" {
		out.Console = append(out.Console, "not done yet: the effect "+f.Tool+" waits for a person, as the run "+string(waits))
	}
	return err
}

const maxMessage = 1000

// noted is the outcome of audit rows that no decision has led to.
const noted core.ApprovalState = "noted"

// log writes a line to the log of pml.
func (e *execution) log(in flow.Input, args json.RawMessage) error {
	var a struct {
		Message string `json:"message"`
		Level   string `json:"level"`
	}
	if err := strict(args, &a); err != nil {
		return core.Errorf(core.CodeHookFailed, "it takes {message, level}: %w", err)
	}
	level := slog.LevelInfo
	if a.Level != "" && level.UnmarshalText([]byte(a.Level)) != nil {
		return core.Errorf(core.CodeHookFailed, "level must be debug, info, warn or error")
	}
	e.r.o.Logger.Log(context.Background(), level, core.Visible(e.secrets(a.Message), maxMessage, false), "flow", in.Flow.ID, "node", in.Node.ID, "tool", in.Request.Tool)
	return nil
}

// audit appends a row to the audit log.
func (e *execution) audit(ctx context.Context, in flow.Input, args json.RawMessage) error {
	var a struct {
		Message string `json:"message"`
	}
	if err := strict(args, &a); err != nil || a.Message == "" {
		return core.Errorf(core.CodeHookFailed, "it takes {message}, a text")
	}
	if e.r.o.Store == nil {
		return core.Errorf(core.CodeHookFailed, "there is no audit log here")
	}
	digest, err := core.Digest(in.Request.Args)
	if err != nil {
		digest = ""
	}
	return e.r.o.Store.Record(ctx, core.AuditRow{
		At: e.r.o.Clock.Now(), RunID: in.Request.RunID, RunName: in.Request.Run.Name, Workspace: in.Request.Workspace, Tool: in.Request.Tool, Digest: digest,
		Outcome: noted, By: core.Actor{Who: "flow:" + core.Visible(in.Flow.ID, 80, false), Via: core.ViaRule},
		Reason: core.Visible(e.secrets(a.Message), maxMessage, false),
	})
}

// window is a counter: how much was counted since a time, and until when that holds.
// Both are milliseconds since 1970.
type window struct {
	Since int64   `json:"since"`
	Until int64   `json:"until"`
	N     float64 `json:"n"`
}

// limit are the arguments of count.
type limit struct {
	Key     string  `json:"key"`
	Limit   float64 `json:"limit"`
	Seconds float64 `json:"seconds"`
}

// count counts, and blocks the call when there would be more than limit within a
// window of time. A window begins with the first call in it and ends after its seconds;
// the call that finds it over begins the next one. So twice the limit may pass around
// the end of a window, in exchange for two numbers for each key in place of a list. The
// counters of a flow are kept by the store, for all processes, and changed by
// compare-and-set: what the function sets is set anew each time that it runs.
func (e *execution) count(ctx context.Context, in flow.Input, out *flow.Output, args json.RawMessage) error {
	a := limit{}
	if err := strict(args, &a); err != nil || a.Limit <= 0 || a.Seconds <= 0 {
		return core.Errorf(core.CodeHookFailed, "it takes {key, limit, seconds}, both numbers above 0")
	}
	key := keyOf(in)
	key.Flow += "\ncounters"
	now := e.r.o.Clock.Now().UnixMilli()
	var over, shared bool
	var w window
	err := e.r.change(ctx, in, key, func(values map[string]json.RawMessage) (bool, error) {
		var name string
		name, shared = counterOf(values, a, now)
		w, over = window{Since: now}, false
		if raw := values[name]; len(raw) > 0 && json.Unmarshal(raw, &w) != nil {
			return false, core.Errorf(core.CodeHookFailed, "the counter is damaged")
		}
		if float64(now-w.Since) >= a.Seconds*1000 {
			w = window{Since: now}
		}
		if w.N+1 > a.Limit {
			over = true
			return false, nil
		}
		w.N++
		w.Until = w.Since + int64(min(a.Seconds, maxSeconds)*1000)
		raw, err := json.Marshal(w)
		values[name] = raw
		return true, err
	})
	if over {
		left := time.Duration(min(a.Seconds, maxSeconds)*float64(time.Second)) - time.Duration(now-w.Since)*time.Millisecond
		message := "more than the limit of " + number(a.Limit) + " within " + number(a.Seconds) + " seconds; try again in " + left.Round(time.Second).String()
		if shared {
			message += fmt.Sprintf(" (%d counters are in use, and new keys share one)", maxCounters)
		}
		out.Block = &flow.Block{Code: string(core.CodeRateLimited), Message: message}
	}
	return err
}

// The bounds of a flow's counters. New keys beyond maxCounters share one, so that nobody
// gets past a limit by choosing keys: no counter goes before its time is over.
const (
	maxCounters = 500
	maxKey      = 48                   // bytes; of a longer key its digest is kept
	maxSeconds  = 10 * 365 * 24 * 3600 // of the window; more is as much
)

// counterOf names the counter of a key among those that are kept. For a new key it takes
// those away whose time is over; shared is set for the counter of keys that have no room.
func counterOf(values map[string]json.RawMessage, a limit, now int64) (name string, shared bool) {
	key, of := a.Key, " "+number(a.Seconds)+" "
	if len(key) > maxKey {
		key, _ = core.DigestOf(key)
		of += "digest "
	}
	if name = "n" + of + key; len(values[name]) > 0 { // writer is empty
		return name, false
	}
	kept, all := 0, "shared"+of
	for other, raw := range values {
		var w window
		switch {
		case other == writer || other == all:
		case json.Unmarshal(raw, &w) == nil && w.Until <= now:
			delete(values, other)
		default:
			kept++
		}
	}
	if kept >= maxCounters {
		return all, true
	}
	return name, false
}

func number(f float64) string {
	raw, _ := json.Marshal(f)
	return string(raw)
}

// cached gives a result that was stored under a key in place of the call, or, behind
// the call, stores its result. Without a key it is the tool with its arguments, as far
// as this node leaves them. Only results without an error are stored, and they are read
// by nobody but the same flow, unchanged, for the same owner and workspace (cacheKey).
func (e *execution) cached(in flow.Input, out *flow.Output, args json.RawMessage) error {
	a := struct {
		Key     string  `json:"key"`
		Seconds float64 `json:"seconds"`
	}{Seconds: 300}
	if err := strict(args, &a); err != nil || a.Seconds <= 0 {
		return core.Errorf(core.CodeHookFailed, "it takes {key, seconds}")
	}
	if a.Key == "" {
		sent := in.Request.Args
		if len(out.Args) > 0 {
			sent = out.Args
		}
		digest, err := core.Digest(sent)
		if err != nil {
			return err
		}
		a.Key = digest
	}
	key := cacheKey{keyOf(in), in.Flow.Digest, in.Request.Workspace, in.Request.Owner, in.Request.Tool, a.Key}
	if in.Answer == nil {
		if stored := e.r.cache.get(key); stored != nil && out.Block == nil {
			out.Response = stored
		}
		return nil
	}
	result := in.Answer.Result
	if len(out.Response) > 0 {
		result = out.Response
	}
	if r, err := readResult(result); in.Answer.Err == nil && out.Block == nil && err == nil && (r.isError == nil || !*r.isError) {
		e.r.cache.put(key, result, time.Duration(a.Seconds*float64(time.Second)))
	}
	return nil
}

// cacheKey keeps apart what different flows, owners and workspaces store. A flow that has
// changed does not give what it stored before.
type cacheKey struct {
	flow                                core.FlowKey
	digest, workspace, owner, tool, key string
}

// cache has results of this process.
type cache struct {
	clock   core.Clock
	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
	size    int
}

type cacheEntry struct {
	result json.RawMessage
	until  time.Time
}

// The bounds of the cache, in bytes of results and in entries.
const (
	maxCache   = 32 << 20
	maxEntries = 10_000
)

func (c *cache) get(key cacheKey) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	if !ok || !c.clock.Now().Before(entry.until) {
		return nil
	}
	return entry.result
}

// put stores a result. What does not fit any more takes the place of those that end first.
func (c *cache) put(key cacheKey, result json.RawMessage, seconds time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(result) > maxCache/4 || len(key.key) > 1000 {
		return
	}
	if c.entries == nil {
		c.entries = map[cacheKey]cacheEntry{}
	}
	c.drop(key)
	for c.size+len(result) > maxCache || len(c.entries) >= maxEntries {
		var first cacheKey
		for k, entry := range c.entries {
			if old, ok := c.entries[first]; !ok || entry.until.Before(old.until) {
				first = k
			}
		}
		c.drop(first)
	}
	c.entries[key] = cacheEntry{result, c.clock.Now().Add(seconds)}
	c.size += len(result)
}

func (c *cache) drop(key cacheKey) {
	c.size -= len(c.entries[key].result)
	delete(c.entries, key)
}
