package dag

import "slices"

// cycles returns one cycle of each knot of tasks that wait for each other, in
// the order in which they wait. Edges of a task to itself are left out; they
// are reported apart. It is iterative: a chain of any length is no deep stack.
func cycles(deps [][]int) [][]int {
	var out [][]int
	for _, knot := range components(deps) {
		if len(knot) > 1 {
			out = append(out, cycleIn(deps, knot))
		}
	}
	return out
}

// components finds the strongly connected components by Tarjan's algorithm.
func components(deps [][]int) [][]int {
	type frame struct{ node, next int }
	order, low := make([]int, len(deps)), make([]int, len(deps))
	onStack := make([]bool, len(deps))
	var stack []int
	var out [][]int
	count := 0
	for root := range deps {
		if order[root] != 0 {
			continue
		}
		frames := []frame{{node: root}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.next == 0 {
				count++
				order[f.node], low[f.node] = count, count
				stack, onStack[f.node] = append(stack, f.node), true
			}
			if f.next < len(deps[f.node]) {
				to := deps[f.node][f.next]
				f.next++
				switch {
				case order[to] == 0:
					frames = append(frames, frame{node: to})
				case onStack[to]:
					low[f.node] = min(low[f.node], order[to])
				}
				continue
			}
			node := f.node
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				up := frames[len(frames)-1].node
				low[up] = min(low[up], low[node])
			}
			if low[node] == order[node] {
				at := len(stack) - 1
				for at >= 0 && stack[at] != node {
					at--
				}
				if at < 0 {
					continue
				}
				knot := slices.Clone(stack[at:])
				for _, n := range knot {
					onStack[n] = false
				}
				stack = stack[:at]
				out = append(out, knot)
			}
		}
	}
	return out
}

// cycleIn returns a shortest cycle through the first task of a knot.
func cycleIn(deps [][]int, knot []int) []int {
	inside := make(map[int]bool, len(knot))
	for _, n := range knot {
		inside[n] = true
	}
	start := slices.Min(knot)
	from := map[int]int{}
	queue := []int{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, to := range deps[n] {
			if to == start && n != start {
				path := []int{n}
				for n != start {
					n = from[n]
					path = append(path, n)
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := from[to]; !seen && to != start && inside[to] {
				from[to] = n
				queue = append(queue, to)
			}
		}
	}
	return knot
}
