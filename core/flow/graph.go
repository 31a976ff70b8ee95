package flow

// graph is a flow's nodes by what leads to them.
type graph struct {
	nodes map[string]*Node // the first of each id
	out   map[string][]*Edge
	in    map[string][]*Edge
	start *Node
	// behind has the nodes that an mcp-call node leads to.
	behind map[string]bool
}

func graphOf(f *Flow) graph {
	g := graph{nodes: map[string]*Node{}, out: map[string][]*Edge{}, in: map[string][]*Edge{}, behind: map[string]bool{}}
	for _, n := range f.Nodes {
		if g.nodes[n.ID] == nil {
			g.nodes[n.ID] = n
		}
		if n.Type == TypeStart && g.start == nil {
			g.start = n
		}
	}
	for _, e := range f.Edges {
		g.out[e.Source] = append(g.out[e.Source], e)
		g.in[e.Target] = append(g.in[e.Target], e)
	}
	for _, n := range f.Nodes {
		if n.Type == TypeCall {
			g.reach(n.ID, g.behind)
		}
	}
	return g
}

// reach adds all nodes that a node leads to.
func (g *graph) reach(from string, seen map[string]bool) {
	for _, e := range g.out[from] {
		if g.nodes[e.Target] != nil && !seen[e.Target] {
			seen[e.Target] = true
			g.reach(e.Target, seen)
		}
	}
}

// next is the node of the main path behind another one; branch chooses behind a
// condition.
func (g *graph) next(n *Node, branch string) *Node {
	for _, e := range g.out[n.ID] {
		if to := g.nodes[e.Target]; to != nil && to.Blocking() && (n.Type != TypeCondition || e.Label == branch) {
			return to
		}
	}
	return nil
}

// beside are the nodes that nobody waits for behind a node.
func (g *graph) beside(n *Node, branch string) (out []*Node) {
	for _, e := range g.out[n.ID] {
		if to := g.nodes[e.Target]; to != nil && !to.Blocking() && (n.Type != TypeCondition || e.Label == branch) {
			out = append(out, to)
		}
	}
	return out
}
