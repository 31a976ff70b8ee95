package dag

// order computes layers and dependants of a graph without cycles, in one topological
// walk (Kahn's algorithm). A task's layer is the length of the longest path to it: one
// more than the largest layer of what it depends on, 0 without dependencies. A new task
// of Extend starts at floor instead of 0, and its dependants follow from there; an old
// task keeps its layer. No old task depends on a new one, since old dependencies were
// resolved before the new ids existed.
func (b *builder) order(floor int) {
	g := b.g
	n := len(g.tasks)
	g.users = make([][]int, n)
	waits := make([]int, n)
	for i, deps := range g.deps {
		for _, j := range deps {
			g.users[j] = append(g.users[j], i)
		}
		waits[i] = len(deps)
	}
	g.layer = append(g.layer, make([]int, n-len(g.layer))...)
	for i := b.old; i < n; i++ {
		g.layer[i] = max(floor, 0)
	}
	var ready []int
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, u := range g.users[i] {
			if u >= b.old {
				g.layer[u] = max(g.layer[u], g.layer[i]+1)
			}
			if waits[u]--; waits[u] == 0 {
				ready = append(ready, u)
			}
		}
	}
}
