package graph

// Turns are the points at which a link turns, its ends included.
func (l *Layout) Turns(link int) [][2]int {
	var out [][2]int
	for _, p := range l.chains[link] {
		out = append(out, [2]int{p.x, p.y})
	}
	return out
}
