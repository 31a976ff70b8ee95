package graph

// Dirs are the directions in which lines leave a cell.
type Dirs uint8

// The directions. Arrow: an arrow into the box at the right.
const (
	Up Dirs = 1 << iota
	Down
	Left
	Right
	Arrow
)

// Grid is a part of a layout with the lines in it.
type Grid struct {
	x, y, w, h int
	cells      []Dirs
}

// NewGrid returns an empty grid for the part of a layout that begins at a cell.
func NewGrid(x, y, w, h int) *Grid {
	w, h = max(w, 0), max(h, 0)
	return &Grid{x: x, y: y, w: w, h: h, cells: make([]Dirs, w*h)}
}

// Each calls f with every cell that has lines, at its place in the grid.
func (g *Grid) Each(f func(x, y int, d Dirs)) {
	for i, d := range g.cells {
		if d != 0 {
			f(i%g.w, i/g.w, d)
		}
	}
}

func (g *Grid) set(x, y int, d Dirs) {
	if x -= g.x; x < 0 || x >= g.w {
		return
	}
	if y -= g.y; y < 0 || y >= g.h {
		return
	}
	g.cells[y*g.w+x] |= d
}

// across draws along a row; the ends go on where they are open.
func (g *Grid) across(row, from, to int, left, right bool) {
	if row < g.y || row >= g.y+g.h || from > to {
		return
	}
	if left {
		g.set(from, row, Left)
	}
	if right {
		g.set(to, row, Right)
	}
	for x := max(from, g.x-1); x < min(to, g.x+g.w); x++ {
		g.set(x, row, Right)
		g.set(x+1, row, Left)
	}
}

// down draws along a column.
func (g *Grid) down(x, top, bottom int) {
	if x < g.x || x >= g.x+g.w {
		return
	}
	for y := max(top, g.y-1); y < min(bottom, g.y+g.h); y++ {
		g.set(x, y, Down)
		g.set(x, y+1, Up)
	}
}

// Lines draws all lines that lie in a grid.
func (l *Layout) Lines(g *Grid) {
	for i := range l.gaps {
		gap := &l.gaps[i]
		if gap.x >= g.x+g.w || gap.x+gap.w <= g.x {
			continue
		}
		for _, a := range gap.across {
			g.across(a.row, a.from, a.to, a.left, a.right)
			if a.arrow {
				g.set(a.to, a.row, Arrow)
			}
		}
		for _, d := range gap.down {
			g.down(d.x, d.top, d.bottom)
		}
	}
	for i, c := range l.Columns {
		if c.X >= g.x+g.w || c.X+c.W <= g.x {
			continue
		}
		for _, row := range l.passes[i] {
			g.across(row, c.X, c.X+c.W-1, true, true)
		}
	}
}

// LinesOf draws the lines from and to one box that lie in a grid.
func (l *Layout) LinesOf(box int, g *Grid) {
	for i, link := range l.links {
		if link[0] != box && link[1] != box {
			continue
		}
		turns := l.chains[i]
		for n := 1; n < len(turns); n++ {
			a, b := turns[n-1], turns[n]
			if a.y == b.y {
				g.across(a.y, min(a.x, b.x), max(a.x, b.x), n == 1, n == len(turns)-1)
			} else {
				g.down(a.x, min(a.y, b.y), max(a.y, b.y))
			}
		}
		end := turns[len(turns)-1]
		g.set(end.x, end.y, Arrow)
	}
}

// Links returns the edges that are drawn, as boxes from and to. The slice is
// the layout's own.
func (l *Layout) Links() [][2]int { return l.links }

// Column returns the index of the column that a box stands in.
func (l *Layout) Column(box int) int {
	for i, c := range l.Columns {
		if box < c.Last {
			return i
		}
	}
	return -1
}

// At returns the lines of one cell of the grid.
func (g *Grid) At(x, y int) Dirs {
	if x < 0 || x >= g.w || y < 0 || y >= g.h {
		return 0
	}
	return g.cells[y*g.w+x]
}
