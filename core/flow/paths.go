package flow

import (
	"slices"
	"strconv"
)

// checkEdges checks each edge, and how many lead to and from each node.
func (f *Flow) checkEdges() {
	type key struct{ source, target, label string }
	seen := map[key]bool{}
	for i, e := range f.Edges {
		at := "/edges/" + strconv.Itoa(i)
		source, target := f.graph.nodes[e.Source], f.graph.nodes[e.Target]
		if source == nil {
			f.fault(at, "the edge begins at %s, which is no node", quoted(e.Source))
		}
		if target == nil {
			f.fault(at, "the edge leads to %s, which is no node", quoted(e.Target))
		}
		if source == nil || target == nil {
			continue
		}
		if e.Source == e.Target {
			f.fault(at, "the edge leads from the node %s to itself", quoted(e.Source))
		}
		if k := (key{e.Source, e.Target, e.Label}); seen[k] {
			f.fault(at, "there are two edges from %s to %s", quoted(e.Source), quoted(e.Target))
		} else {
			seen[k] = true
		}
		if source.Type == TypeCondition && e.Label != "true" && e.Label != "false" {
			f.fault(at, "the edge from the condition %s must be labelled true or false, not %q", quoted(e.Source), quoted(e.Label))
		}
	}
	starts, ends := 0, 0
	for i, n := range f.Nodes {
		if n.ID == "" || f.graph.nodes[n.ID] != n {
			continue // another one has its id
		}
		switch n.Type {
		case TypeStart:
			starts++
		case TypeEnd:
			ends++
		}
		f.checkDegree(n, "/nodes/"+strconv.Itoa(i))
	}
	for _, one := range []struct {
		name  string
		count int
	}{{TypeStart, starts}, {TypeEnd, ends}} {
		if one.count != 1 {
			f.fault("/nodes", "needs exactly one %s node, and has %d", one.name, one.count)
		}
	}
}

func (f *Flow) checkDegree(n *Node, at string) {
	in, out := len(f.graph.in[n.ID]), len(f.graph.out[n.ID])
	switch {
	case n.Type == TypeStart && in > 0:
		f.nodeFault(n, at, "no edge may lead to start")
	case n.Type == TypeEnd && in == 0:
		f.nodeFault(n, at, "no edge leads to end")
	case n.Type != TypeStart && n.Type != TypeEnd && in != 1:
		f.nodeFault(n, at, "%d edges lead to it; it needs exactly one", in)
	}
	switch {
	case n.Type == TypeEnd && out > 0:
		f.nodeFault(n, at, "no edge may begin at end")
	case !n.Blocking() && out > 0:
		f.nodeFault(n, at, "nobody waits for it, so nothing can come behind it; set blocking to true, or take its edges away")
	case n.Type == TypeCondition:
		for _, label := range []string{"true", "false"} {
			f.checkNext(n, at, label)
		}
	case n.Type != TypeEnd && n.Blocking():
		f.checkNext(n, at, "")
	}
}

// checkNext checks that exactly one node of the main path follows.
func (f *Flow) checkNext(n *Node, at, label string) {
	var next []string
	for _, e := range f.graph.out[n.ID] {
		to := f.graph.nodes[e.Target]
		if to != nil && to.Blocking() && (n.Type != TypeCondition || e.Label == label) && !slices.Contains(next, quoted(to.ID)) {
			next = append(next, quoted(to.ID))
		}
	}
	behind := "behind it"
	if label != "" {
		behind = "behind its edge " + label
	}
	switch {
	case len(next) == 0:
		f.nodeFault(n, at, "the path ends here: no node that the call waits for comes %s", behind)
	case len(next) > 1:
		f.nodeFault(n, at, "the path is ambiguous: both %s and %s come %s; a condition chooses", next[0], next[1], behind)
	}
}

// checkPaths checks the flow as a whole: cycles, what cannot be reached, and the
// mcp-call on every way to end.
func (f *Flow) checkPaths() {
	if loop := f.graph.cycle(f.Nodes); loop != nil {
		f.nodeFault(f.graph.nodes[loop[0]], f.pointerOf(loop[0]), "the edges go round in a circle: %s", joined(loop))
		return
	}
	if f.graph.start == nil {
		return
	}
	reached := map[string]bool{f.graph.start.ID: true}
	f.graph.reach(f.graph.start.ID, reached)
	for i, n := range f.Nodes {
		if n.ID != "" && f.graph.nodes[n.ID] == n && !reached[n.ID] && n.Type != TypeStart {
			f.nodeFault(n, "/nodes/"+strconv.Itoa(i), "cannot be reached from start")
		}
	}
	w := pathCheck{f: f, seen: map[pathState]bool{}}
	w.walk(f.graph.start, pathState{node: f.graph.start.ID})
}

func joined(ids []string) string {
	text := ""
	for i, id := range ids {
		if i > 0 {
			text += " → "
		}
		text += quoted(id)
	}
	return text
}

func (f *Flow) pointerOf(id string) string {
	return "/nodes/" + strconv.Itoa(slices.IndexFunc(f.Nodes, func(n *Node) bool { return n.ID == id }))
}

// pathState is what is known at a node of a way from start.
type pathState struct {
	node  string
	calls int    // mcp-call nodes so far; at most 2
	asked string // the approval node that came last
}

type pathCheck struct {
	f    *Flow
	seen map[pathState]bool
}

// walk follows all main paths; each node is visited once for each state.
func (w *pathCheck) walk(n *Node, s pathState) {
	if w.seen[s] {
		return
	}
	w.seen[s] = true
	fault := func(format string, args ...any) { w.f.nodeFault(n, w.f.pointerOf(n.ID), format, args...) }
	switch {
	case n.Type == TypeCall:
		if s.calls++; s.calls == 2 {
			fault("a path to it has an mcp-call already; every path has exactly one")
			return
		}
	case n.Type == TypeEnd:
		if s.calls == 0 {
			fault("a path leads to it without an mcp-call; every path has exactly one")
		}
		return
	case n.Type == TypeApproval && s.calls > 0:
		fault("an approval node must come before the mcp-call")
	case n.Type == TypeApproval:
		s.asked = n.ID
	case s.asked != "" && s.calls == 0 && n.changesParameters():
		fault("it may change the parameters after the approval node %s has asked about them; put it before", quoted(s.asked))
	}
	for _, e := range w.f.graph.out[n.ID] {
		if to := w.f.graph.nodes[e.Target]; to != nil && to.Blocking() {
			next := s
			next.node = to.ID
			w.walk(to, next)
		}
	}
}

// changesParameters reports whether a node can give other parameters.
func (n *Node) changesParameters() bool {
	switch n.Type {
	case TypeStart, TypeEnd, TypeCall, TypeCondition, TypeSet, TypeApproval:
		return false
	}
	return n.Blocking()
}

// cycle returns the nodes of a cycle, the first one again at its end; nil: there is
// none.
func (g *graph) cycle(nodes []*Node) []string {
	const open, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(id string) []string
	visit = func(id string) []string {
		state[id] = open
		path = append(path, id)
		for _, e := range g.out[id] {
			switch to := e.Target; {
			case g.nodes[to] == nil || to == id:
			case state[to] == open:
				return append(slices.Clone(path[slices.Index(path, to):]), to)
			case state[to] == 0:
				if loop := visit(to); loop != nil {
					return loop
				}
			}
		}
		path = path[:len(path)-1]
		state[id] = done
		return nil
	}
	for _, n := range nodes {
		if g.nodes[n.ID] == n && state[n.ID] == 0 {
			if loop := visit(n.ID); loop != nil {
				return loop
			}
		}
	}
	return nil
}
