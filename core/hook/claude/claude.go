// Package claude makes hook flows of the hooks in a settings file of Claude Code
// (.claude/settings.json, or hooks/hooks.json of a plugin).
package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// Options are what an import needs to know.
type Options struct {
	// PluginRoot is the folder of the plugin that the file belongs to, which commands
	// name as ${CLAUDE_PLUGIN_ROOT}; empty: none, and such commands are left out.
	PluginRoot string
	Now        time.Time
}

// Imported is what became of a settings file.
type Imported struct {
	Flows []File
	// Left says in words of each hook that is not in the flows why it is not.
	Left []string
}

// File is one flow, as a file for a folder of flows.
type File struct {
	Name string
	Text []byte
}

type settings struct {
	Hooks map[string][]group `json:"hooks"`
}

// group are hooks that run for the same tools.
type group struct {
	Matcher string    `json:"matcher"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Timeout float64           `json:"timeout"` // seconds
	Async   bool              `json:"async"`
	If      string            `json:"if"`
	Shell   string            `json:"shell"`
}

// The events of tools, in the order of their flows.
const (
	before = "PreToolUse"
	after  = "PostToolUse"
)

// Import reads a settings file. Hooks about tools of MCP servers become one flow for
// each matcher; the others are left out with a reason, because calls of the host's own
// tools do not pass through pml.
func Import(text []byte, o Options) (Imported, error) {
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return Imported{}, core.Errorf(core.CodeInvalidConfig, "the file is no settings file of Claude Code: %w", err)
	}
	var out Imported
	for _, event := range []string{before, after} {
		for i, g := range s.Hooks[event] {
			out.group(event, i+1, g, o)
		}
		delete(s.Hooks, event)
	}
	for _, event := range slices.Sorted(maps.Keys(s.Hooks)) {
		out.leave("%s: pml runs the hooks of PreToolUse and PostToolUse", event)
	}
	return out, nil
}

func (im *Imported) leave(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = core.Visible(s, 120, false)
		}
	}
	im.Left = append(im.Left, fmt.Sprintf(format, args...))
}

// group makes the flow of one group.
func (im *Imported) group(event string, number int, g group, o Options) {
	tools, ok := toolsOf(g.Matcher)
	switch {
	case !ok:
		im.leave("%s %s: pml cannot say which tools this matches", event, g.Matcher)
		return
	case tools != nil && len(tools) == 0:
		im.leave("%s %s: these are the host's own tools, whose calls do not pass through pml", event, g.Matcher)
		return
	}
	var nodes []map[string]any
	for _, h := range g.Hooks {
		data, why := h.data(o)
		if why != "" {
			im.leave("%s %s: %s", event, g.Matcher, why)
			continue
		}
		kind := flow.TypeCommand
		if h.Type == flow.TypeHTTP {
			kind = flow.TypeHTTP
		}
		nodes = append(nodes, map[string]any{"id": "hook" + strconv.Itoa(len(nodes)+1), "type": kind, "data": data})
	}
	if len(nodes) == 0 {
		return
	}
	id := "claude-" + strings.ToLower(event) + "-" + strconv.Itoa(number)
	text, err := flowOf(id, event, g.Matcher, tools, nodes, o)
	if err != nil {
		im.leave("%s %s: %s", event, g.Matcher, err.Error())
		return
	}
	im.Flows = append(im.Flows, File{id + ".json", text})
}

// flowOf is the text of a flow whose nodes stand in a line before the call, or behind it.
func flowOf(id, event, matcher string, tools []string, nodes []map[string]any, o Options) ([]byte, error) {
	call := map[string]any{"id": "mcp", "type": flow.TypeCall, "data": map[string]any{"label": "Call"}}
	line := []map[string]any{{"id": "start", "type": flow.TypeStart, "data": map[string]any{"label": "Start"}}}
	if event == before {
		line = append(append(line, nodes...), call)
	} else {
		line = append(append(line, call), nodes...)
	}
	line = append(line, map[string]any{"id": "end", "type": flow.TypeEnd, "data": map[string]any{"label": "End"}})
	var edges []map[string]any
	from := ""
	for i, n := range line {
		n["position"] = map[string]any{"x": i * 200, "y": 0}
		if from != "" {
			edges = append(edges, map[string]any{"id": "e" + strconv.Itoa(i), "source": from, "target": n["id"]})
		}
		if data, _ := n["data"].(map[string]any); data["blocking"] != false {
			from, _ = n["id"].(string)
		} else {
			n["position"] = map[string]any{"x": i * 200, "y": 100}
		}
	}
	f := struct {
		ID          string           `json:"id"`
		Name        string           `json:"name"`
		Description string           `json:"description"`
		Type        string           `json:"workflowType"`
		Enabled     bool             `json:"enabled"`
		CreatedAt   int64            `json:"createdAt"`
		UpdatedAt   int64            `json:"updatedAt"`
		Match       map[string]any   `json:"match,omitempty"`
		Nodes       []map[string]any `json:"nodes"`
		Edges       []map[string]any `json:"edges"`
	}{
		ID: id, Name: "Claude Code: " + event + " " + cmp.Or(matcher, "*"), Description: "Imported from the hooks of Claude Code; the matcher was " + strconv.Quote(matcher) + ".",
		Type: flow.CallTool, Enabled: true, CreatedAt: o.Now.UnixMilli(), UpdatedAt: o.Now.UnixMilli(), Nodes: line, Edges: edges,
	}
	if len(tools) > 0 {
		f.Match = map[string]any{"tool": tools}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(f)
	return b.Bytes(), err
}

const pluginRoot = "CLAUDE_PLUGIN_ROOT"

// defaultTimeout is what hosts give a hook that says nothing; it is the most that pml
// gives one.
const defaultTimeout = flow.MaxTimeout

// data is the data of a handler's node; else why there is none.
func (h handler) data(o Options) (data map[string]any, why string) {
	label := h.Command
	if h.Type == flow.TypeHTTP {
		label = h.URL
	}
	limit := defaultTimeout
	if h.Timeout > 0 {
		limit = min(time.Duration(h.Timeout*float64(time.Second)), flow.MaxTimeout)
	}
	data = map[string]any{"label": core.Visible(label, 40, false), "timeoutMs": limit.Milliseconds()}
	if h.Async {
		data["blocking"] = false
	}
	switch {
	case h.If != "":
		return nil, "it has the condition " + h.If + ", which pml does not know"
	case h.Type == flow.TypeHTTP:
		data[flow.TypeHTTP] = flow.HTTP{URL: h.URL, Headers: h.Headers}
		return data, ""
	case h.Type != flow.TypeCommand:
		return nil, "it is of the type " + h.Type + "; pml can take over command and http"
	case h.Shell != "" && h.Shell != "bash":
		return nil, "it is written for the shell " + h.Shell
	}
	c := flow.Command{Command: "bash", Args: []string{"-c", h.Command}}
	if len(h.Args) > 0 {
		c = flow.Command{Command: h.Command, Args: h.Args}
	}
	if strings.Contains(h.Command+strings.Join(h.Args, " "), pluginRoot) {
		if o.PluginRoot == "" {
			return nil, "it belongs to a plugin, whose folder is not known"
		}
		c.Env = map[string]string{pluginRoot: o.PluginRoot}
		for i, arg := range h.Args {
			c.Args[i] = strings.ReplaceAll(arg, "${"+pluginRoot+"}", o.PluginRoot)
		}
	}
	data[flow.TypeCommand] = c
	return data, ""
}

var (
	exactNames = regexp.MustCompile(`^[\w|, -]*$`)
	plainGlob  = regexp.MustCompile(`^[\w:*-]*$`)
)

// toolsOf makes globs of a matcher: nil for all tools, an empty list for tools of the
// host alone; false: the regular expression says more than globs can.
func toolsOf(matcher string) (tools []string, ok bool) {
	switch strings.TrimSpace(matcher) {
	case "", "*", ".*":
		return nil, true
	}
	tools = []string{}
	exact := exactNames.MatchString(matcher)
	for part := range strings.SplitSeq(strings.ReplaceAll(matcher, ",", "|"), "|") {
		part = strings.TrimSpace(part)
		glob := part
		if !exact {
			open := !strings.HasSuffix(part, "$")
			glob = strings.TrimSuffix(strings.TrimPrefix(part, "^"), "$")
			glob = strings.NewReplacer(`.*`, `*`, `.+`, `*`, `\.`, `.`, `\-`, `-`).Replace(glob)
			if open && strings.HasPrefix(glob, "mcp__") && !strings.HasSuffix(glob, "*") {
				glob += "*" // a regular expression need not match to the end
			}
			if !plainGlob.MatchString(glob) {
				return nil, false
			}
		}
		switch name, mcp := strings.CutPrefix(glob, "mcp__"); {
		case mcp:
			if server, tool, both := strings.Cut(name, "__"); both {
				name = server + ":" + tool
			} else if name != "*" {
				name += ":*"
			}
			tools = append(tools, name)
		case strings.HasPrefix(glob, "*"):
			tools = append(tools, glob)
		}
	}
	return tools, true
}
