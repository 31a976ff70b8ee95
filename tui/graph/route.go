package graph

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// gap is what is drawn between two columns, at columns of the whole layout.
type gap struct {
	x, w   int
	across []across
	down   []down
	tracks []track
	first  map[int32]int    // the track of a slot's lines; none: they run straight
	labels map[int32]string // in the lines into slots
}

// across is a line along a row. It goes on at its left and right end where
// those touch a box or a passing line.
type across struct {
	row, from, to int
	left, right   bool
	arrow         bool
}

// down is a line along a column.
type down struct{ x, top, bottom int }

// track is a column of a gap that the lines of one slot turn in. Lines of a slot
// whose track would have to be left and right of another's turn twice: then the
// second track is next.
type track struct {
	slot        int32
	top, bottom int
	detour      int // the row between two tracks, or -1
	next        int // the second track, or -1
	right       []int
	waits       int // tracks that must be placed before
	least, at   int
}

// placeRows stacks the slots of each column.
func (b *builder) placeRows() {
	l := b.layout
	l.passes = make([][]int, len(b.ranks))
	for rank, list := range b.ranks {
		y := 0
		for _, i := range list {
			s := &b.slots[i]
			if s.box < 0 {
				s.row = y
				l.passes[rank] = append(l.passes[rank], y)
				y++
				continue
			}
			l.Boxes[s.box].Y, s.row = y, y+1
			y += BoxH
		}
		l.H = max(l.H, y)
	}
}

// placeColumns finds the tracks of each gap and from them where columns stand.
func (b *builder) placeColumns(o Options) {
	l := b.layout
	x, lowest := 0, l.H
	for rank := range l.Columns {
		l.Columns[rank].X = x
		for i := l.Columns[rank].First; i < l.Columns[rank].Last; i++ {
			l.Boxes[i].X = x
		}
		x += l.Columns[rank].W
		l.W = x
		if rank == len(l.Columns)-1 {
			break
		}
		g := gap{x: x, first: map[int32]int{}}
		b.makeTracks(&g, rank)
		below := g.place(l.H)
		lowest = max(lowest, below)
		wide := 0
		for _, t := range g.tracks {
			wide = max(wide, t.at+1)
		}
		g.labels = b.labelsInto(rank + 1)
		g.w = 3 + max(wide, 1)
		for _, text := range g.labels {
			g.w = max(g.w, 4+wide+utf8.RuneCountInString(text))
		}
		if wide == 0 && o.Tight {
			g.w = 2
		}
		l.gaps = append(l.gaps, g)
		x += g.w
	}
	l.H = lowest
}

// labelsInto are the labels of the lines into the slots of a column.
func (b *builder) labelsInto(rank int) map[int32]string {
	out := map[int32]string{}
	for _, to := range b.ranks[rank] {
		for _, from := range b.slots[to].in {
			if text := b.labels[[2]int32{from, to}]; text != "" {
				out[to] = joined(out[to], text)
			}
		}
	}
	return out
}

// makeTracks makes a track for each slot of a column whose lines do not run
// straight, and says which must be left of which: where a line leaves in a row
// in which another arrives, it turns before that one comes, or it would seem to
// go where the other goes. That does not matter where both go to the same.
func (b *builder) makeTracks(g *gap, rank int) {
	for _, i := range b.ranks[rank] {
		slices.Sort(b.slots[i].out)
	}
	arrive := map[int]int32{} // by row
	for _, i := range b.ranks[rank+1] {
		arrive[b.slots[i].row] = i
	}
	for _, i := range b.ranks[rank] {
		s := &b.slots[i]
		t := track{slot: i, top: s.row, bottom: s.row, detour: -1, next: -1}
		for _, to := range s.out {
			t.top, t.bottom = min(t.top, b.slots[to].row), max(t.bottom, b.slots[to].row)
		}
		if t.top < t.bottom {
			g.first[i] = len(g.tracks)
			g.tracks = append(g.tracks, t)
		}
	}
	for n := range g.tracks {
		s := &b.slots[g.tracks[n].slot]
		to, ok := arrive[s.row]
		if !ok {
			continue
		}
		joins := slices.Contains(s.out, to)
		for _, other := range b.slots[to].in {
			if k, ok := g.first[other]; ok && k != n && !(joins && within(s.out, b.slots[other].out)) {
				g.tracks[n].right = append(g.tracks[n].right, k)
				g.tracks[k].waits++
			}
		}
	}
}

// within reports whether all of a are in b; both rise.
func within(a, b []int32) bool {
	if len(a) > len(b) {
		return false
	}
	for len(a) > 0 && len(b) > 0 {
		if a[0] == b[0] {
			a = a[1:]
		}
		b = b[1:]
	}
	return len(a) == 0
}

// place gives each track the leftmost column that is free, and returns the
// first row below all of them. Tracks that wait for each other in a circle take
// a detour through a row below everything.
func (g *gap) place(below int) int {
	var columns [][]int // tracks by column
	todo := make([]int, len(g.tracks))
	for i := range todo {
		todo[i] = i
	}
	for len(todo) > 0 {
		k := slices.IndexFunc(todo, func(i int) bool { return g.tracks[i].waits == 0 })
		if k < 0 {
			todo = append(todo, g.detour(todo[0], below))
			below++
			k = 0
		}
		i := todo[k]
		todo = slices.Delete(todo, k, k+1)
		columns = g.put(i, columns)
		for _, r := range g.tracks[i].right {
			t := &g.tracks[r]
			t.waits--
			t.least = max(t.least, g.tracks[i].at+1)
		}
	}
	return below
}

// detour splits a track: the first half takes the lines down to a row of their
// own, the second from there to where they go.
func (g *gap) detour(i, row int) (second int) {
	second = len(g.tracks)
	first := g.tracks[i]
	half := track{slot: first.slot, top: first.top, bottom: row, detour: -1, next: -1, waits: first.waits + 1}
	for k := range g.tracks { // those that the first half waited for
		for n, r := range g.tracks[k].right {
			if r == i {
				g.tracks[k].right[n] = second
			}
		}
	}
	t := &g.tracks[i]
	t.bottom, t.detour, t.next, t.waits = row, row, second, 0
	t.right = append(t.right, second)
	g.tracks = append(g.tracks, half)
	return second
}

// put places a track in the first column in which no other touches it.
func (g *gap) put(i int, columns [][]int) [][]int {
	t := &g.tracks[i]
	free := func(column []int) bool {
		return !slices.ContainsFunc(column, func(k int) bool {
			o := &g.tracks[k]
			return t.top <= o.bottom && o.top <= t.bottom
		})
	}
	at := t.least
	for at < len(columns) && !free(columns[at]) {
		at++
	}
	for len(columns) <= at {
		columns = append(columns, nil)
	}
	columns[at] = append(columns[at], i)
	t.at = at
	return columns
}

// finish draws the lines and puts the boxes into their order on the screen.
func (b *builder) finish() {
	for rank := range b.layout.gaps {
		b.drawGap(&b.layout.gaps[rank], rank)
	}
	b.chain()
	b.sortBoxes()
}

// x is the column of a track in the layout.
func (g *gap) x0(t *track) int { return g.x + 1 + t.at }

// drawGap makes the lines of a gap: for each slot one along its row and one
// down its track, for each target one along its row from the leftmost track.
func (b *builder) drawGap(g *gap, rank int) {
	end := g.x + g.w - 1
	from := map[int32]int{} // where the line into a target begins
	for _, i := range b.ranks[rank] {
		s := &b.slots[i]
		if len(s.out) == 0 {
			continue
		}
		begin := g.x
		if n, ok := g.first[i]; ok {
			t := &g.tracks[n]
			begin = g.x0(t)
			g.across = append(g.across, across{row: s.row, from: g.x, to: begin, left: true})
			if t.next >= 0 {
				g.down = append(g.down, down{begin, s.row, t.detour})
				second := &g.tracks[t.next]
				g.across = append(g.across, across{row: t.detour, from: begin, to: g.x0(second)})
				begin = g.x0(second)
				t = second
			}
			g.down = append(g.down, b.reach(g, t, begin))
		}
		for _, to := range s.out {
			if old, ok := from[to]; !ok || begin < old {
				from[to] = begin
			}
		}
	}
	for _, i := range b.ranks[rank+1] {
		if begin, ok := from[i]; ok {
			s := &b.slots[i]
			g.across = append(g.across, across{row: s.row, from: begin, to: end, left: begin == g.x, right: true, arrow: s.box >= 0})
			if text := g.labels[i]; text != "" {
				b.layout.Labels = append(b.layout.Labels, Label{X: end - 1 - utf8.RuneCountInString(text), Y: s.row, Text: text})
			}
		}
	}
}

// reach is the line down a track that all turns of it lie on.
func (b *builder) reach(g *gap, t *track, x int) down {
	s := &b.slots[t.slot]
	d := down{x, s.row, s.row}
	if first := &g.tracks[g.first[t.slot]]; first.next >= 0 {
		d.top, d.bottom = first.detour, first.detour
	}
	for _, to := range s.out {
		d.top, d.bottom = min(d.top, b.slots[to].row), max(d.bottom, b.slots[to].row)
	}
	return d
}

// chain notes where each edge turns.
func (b *builder) chain() {
	l := b.layout
	l.chains = make([][]point, len(l.links))
	ways := map[int][]int32{}
	for n, link := range l.links {
		from, to := link[0], link[1]
		way := ways[from]
		if way == nil {
			way = b.way(from)
			ways[from] = way
		}
		var turns []point
		for rank := b.rank[from]; rank < b.rank[to]; rank++ {
			next := int32(to)
			if rank+1 < b.rank[to] {
				next = way[rank+1-b.rank[from]]
			}
			turns = append(turns, b.turns(rank, way[rank-b.rank[from]], next)...)
		}
		l.chains[n] = turns
	}
}

// way are the slots that the lines of a box pass, the box first.
func (b *builder) way(box int) []int32 {
	way := []int32{int32(box)}
	for at := int32(box); ; {
		i := slices.IndexFunc(b.slots[at].out, func(s int32) bool { return b.slots[s].box < 0 })
		if i < 0 {
			return way
		}
		at = b.slots[at].out[i]
		way = append(way, at)
	}
}

// turns are the points of a line through one gap.
func (b *builder) turns(rank int, from, to int32) []point {
	g := &b.layout.gaps[rank]
	start, end := b.slots[from].row, b.slots[to].row
	out := []point{{g.x, start}}
	if n, ok := g.first[from]; ok {
		t := &g.tracks[n]
		out = append(out, point{g.x0(t), start})
		if t.next >= 0 {
			second := &g.tracks[t.next]
			out = append(out, point{g.x0(t), t.detour}, point{g.x0(second), t.detour})
			t = second
		}
		out = append(out, point{g.x0(t), end})
	}
	return append(out, point{g.x + g.w - 1, end})
}

// sortBoxes puts the boxes of each column from top to bottom.
func (b *builder) sortBoxes() {
	l := b.layout
	order := make([]int, len(l.Boxes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(b.rank[i], b.rank[j]), cmp.Compare(l.Boxes[i].Y, l.Boxes[j].Y))
	})
	boxes, now := make([]Box, len(order)), make([]int, len(order))
	for n, i := range order {
		boxes[n], now[i] = l.Boxes[i], n
	}
	for n, link := range l.links {
		l.links[n] = [2]int{now[link[0]], now[link[1]]}
	}
	l.Boxes = boxes
}
