//go:build unix

package pmltest

import (
	"encoding/json"
	"maps"
)

// Flow is the file of an enabled flow: a hook with the script before, the call, and a
// hook with the script behind it. An empty script is no hook. match says which calls meet
// it; nil: all.
func Flow(id string, match map[string]any, before, behind string) []byte {
	return FlowOf(id, match, hookNode(before), hookNode(behind))
}

// hookNode is a hook that has time enough on a machine that is busy with other tests: a
// test about the limit of time sets its own.
func hookNode(script string) map[string]any {
	if script == "" {
		return nil
	}
	return map[string]any{"type": "hook", "data": map[string]any{"hook": map[string]any{"id": "h", "blocking": true, "script": script}, "timeoutMs": 30_000}}
}

// FlowOf is Flow with one node of any type on either side of the call; nil: none.
func FlowOf(id string, match map[string]any, before, behind map[string]any) []byte {
	var nodes, edges []any
	last := ""
	for _, n := range []struct {
		id   string
		node map[string]any
	}{
		{"start", map[string]any{"type": "start", "data": map[string]any{}}}, {"before", before},
		{"call", map[string]any{"type": "mcp-call", "data": map[string]any{}}}, {"behind", behind},
		{"end", map[string]any{"type": "end", "data": map[string]any{}}},
	} {
		if n.node == nil {
			continue
		}
		node := maps.Clone(n.node) // tests in parallel share it
		node["id"], node["position"] = n.id, map[string]int{"x": 0, "y": len(nodes)}
		nodes = append(nodes, node)
		if last != "" {
			edges = append(edges, map[string]any{"source": last, "target": n.id})
		}
		last = n.id
	}
	flow := map[string]any{"id": id, "name": id, "workflowType": "tools/call", "enabled": true, "nodes": nodes, "edges": edges}
	if match != nil {
		flow["match"] = match
	}
	raw, err := json.Marshal(flow)
	if err != nil {
		panic(err)
	}
	return raw
}
