// Package graph lays a graph of layers out: which box stands where, and how the
// lines between them run. It knows no text and no terminal.
//
// Layers are columns from left to right, boxes stand one below the other in
// them, and lines run at right angles in the gaps between the columns. The same
// graph always gives the same layout, in whatever order it is described.
package graph

import (
	"cmp"
	"slices"
	"strings"
)

// BoxH is how many rows a box has. Lines meet it in the middle one.
const BoxH = 3

// Node is one box, or one of those that are drawn together as one.
type Node struct {
	ID    string
	Layer int
	// Keep has a node drawn by itself where its layer is folded.
	Keep bool
}

// Edge is a line from one node to another of a later layer. Others, and those
// of unknown nodes, are left out: a cycle is no reason to draw nothing. A label
// stands in the line, in the gap behind From.
type Edge struct{ From, To, Label string }

// Label is the text in a line and where it begins.
type Label struct {
	X, Y int
	Text string
}

// Options are how a graph is drawn.
type Options struct {
	BoxW int // columns of a box, 20 without
	Fold int // a layer of more nodes is drawn as one box, and those to keep; 12 without
	// Tight leaves less room where there are no edges.
	Tight bool
}

// Box is a rectangle. Nodes are indices of what was given, more than one when
// Group is set.
type Box struct {
	Nodes []int
	Group bool
	Layer int // as given
	X, Y  int
	W, H  int
}

// Column is one layer: its boxes are Boxes[First:Last] of the layout, from top
// to bottom.
type Column struct{ Layer, X, W, First, Last int }

// Layout is where everything is. It never changes.
type Layout struct {
	W, H    int
	Boxes   []Box
	Columns []Column
	Labels  []Label
	Hidden  int // edges that are not drawn because there are too many long ones

	gaps   []gap     // behind each column but the last
	passes [][]int   // rows of lines that pass a column
	links  [][2]int  // boxes, from and to
	chains [][]point // of each link, where it turns
}

type point struct{ x, y int }

// maxPassing bounds how many columns all long lines together pass: a graph with
// more of them cannot be read anyway.
const maxPassing = 5000

// slot is a place in a column: of a box, or of a line that passes.
type slot struct {
	box     int // -1: a line passes
	row     int // of its lines
	pos     int // in its column
	weight  float64
	in, out []int32
}

type builder struct {
	layout *Layout
	slots  []slot
	ranks  [][]int32 // slots by column
	rank   []int     // of boxes
	boxOf  map[string]int
	labels map[[2]int32]string // of the lines from a box to the next slot of their way
}

// Build lays a graph out.
func Build(nodes []Node, edges []Edge, o Options) *Layout {
	if o.BoxW <= 0 {
		o.BoxW = 20
	}
	if o.Fold <= 0 {
		o.Fold = 12
	}
	b := &builder{layout: &Layout{}, boxOf: map[string]int{}, labels: map[[2]int32]string{}}
	b.makeBoxes(nodes, o)
	b.link(edges)
	b.order()
	b.placeRows()
	b.placeColumns(o)
	b.finish()
	return b.layout
}

// makeBoxes makes the boxes and columns. Empty layers have none.
func (b *builder) makeBoxes(nodes []Node, o Options) {
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(nodes[i].Layer, nodes[j].Layer), strings.Compare(nodes[i].ID, nodes[j].ID))
	})
	known := make(map[string]bool, len(nodes))
	order = slices.DeleteFunc(order, func(i int) bool {
		twice := known[nodes[i].ID]
		known[nodes[i].ID] = true
		return twice
	})
	for len(order) > 0 {
		layer, n := nodes[order[0]].Layer, 1
		for n < len(order) && nodes[order[n]].Layer == layer {
			n++
		}
		b.makeColumn(nodes, order[:n], o)
		order = order[n:]
	}
}

// makeColumn makes the boxes of one layer.
func (b *builder) makeColumn(nodes []Node, list []int, o Options) {
	l := b.layout
	column := Column{Layer: nodes[list[0]].Layer, W: o.BoxW, First: len(l.Boxes)}
	group := Box{Group: true, Layer: column.Layer, W: o.BoxW, H: BoxH}
	for _, i := range list {
		if len(list) > o.Fold && (!nodes[i].Keep || len(l.Boxes)-column.First >= o.Fold-1) {
			group.Nodes = append(group.Nodes, i)
			continue
		}
		b.addBox(Box{Nodes: []int{i}, Layer: column.Layer, W: o.BoxW, H: BoxH})
		b.boxOf[nodes[i].ID] = len(l.Boxes) - 1
	}
	if len(group.Nodes) > 0 {
		b.addBox(group)
		for _, i := range group.Nodes {
			b.boxOf[nodes[i].ID] = len(l.Boxes) - 1
		}
	}
	column.Last = len(l.Boxes)
	l.Columns = append(l.Columns, column)
}

// addBox adds a box to the column that is being made.
func (b *builder) addBox(box Box) {
	rank := len(b.layout.Columns)
	for len(b.ranks) <= rank {
		b.ranks = append(b.ranks, nil)
	}
	b.layout.Boxes = append(b.layout.Boxes, box)
	b.rank = append(b.rank, rank)
	b.addSlot(rank, slot{box: len(b.layout.Boxes) - 1})
}

func (b *builder) addSlot(rank int, s slot) int32 {
	s.pos = len(b.ranks[rank])
	b.slots = append(b.slots, s)
	n := int32(len(b.slots) - 1)
	b.ranks[rank] = append(b.ranks[rank], n)
	return n
}

// link connects the slots. All long lines of one box share their way.
func (b *builder) link(edges []Edge) {
	seen := make(map[[2]int][]string, len(edges))
	var pairs [][2]int
	for _, e := range edges {
		from, ok := b.boxOf[e.From]
		to, known := b.boxOf[e.To]
		pair := [2]int{from, to}
		if !ok || !known || b.rank[from] >= b.rank[to] {
			continue
		}
		if seen[pair] == nil {
			pairs = append(pairs, pair)
		}
		seen[pair] = append(seen[pair], e.Label)
	}
	slices.SortFunc(pairs, func(x, y [2]int) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(b.rank[x[1]], b.rank[y[1]]), cmp.Compare(x[1], y[1]))
	})
	passing := 0
	ways := make([][]int32, len(b.rank)) // of each box: its slot, then one for each column passed
	for i := range ways {
		ways[i] = []int32{int32(i)} // boxes have the first slots
	}
	for _, p := range pairs {
		from, to := p[0], p[1]
		more := b.rank[to] - b.rank[from] - len(ways[from])
		if more > 0 && passing+more > maxPassing {
			b.layout.Hidden++
			continue
		}
		for range max(more, 0) {
			passing++
			s := b.addSlot(b.rank[from]+len(ways[from]), slot{box: -1})
			b.connect(ways[from][len(ways[from])-1], s)
			ways[from] = append(ways[from], s)
		}
		b.connect(ways[from][b.rank[to]-b.rank[from]-1], int32(to))
		next := int32(to)
		if b.rank[to]-b.rank[from] > 1 {
			next = ways[from][1]
		}
		line := [2]int32{int32(from), next}
		b.labels[line] = joined(b.labels[line], seen[p]...)
		b.layout.links = append(b.layout.links, p)
	}
}

// joined adds labels to those of a line, each once.
func joined(text string, labels ...string) string {
	for _, label := range labels {
		if label != "" && !slices.Contains(strings.Split(text, "/"), label) {
			text = strings.TrimPrefix(text+"/"+label, "/")
		}
	}
	return text
}

func (b *builder) connect(from, to int32) {
	b.slots[from].out = append(b.slots[from].out, to)
	b.slots[to].in = append(b.slots[to].in, from)
}

// order sorts the columns so that few lines cross: each slot goes to the mean
// of the places of those it is connected to, three times there and back.
func (b *builder) order() {
	for rank := range b.ranks {
		b.sortRank(rank, func(s *slot) []int32 { return nil })
	}
	for range 3 {
		for rank := 1; rank < len(b.ranks); rank++ {
			b.sortRank(rank, func(s *slot) []int32 { return s.in })
		}
		for rank := len(b.ranks) - 2; rank >= 0; rank-- {
			b.sortRank(rank, func(s *slot) []int32 { return s.out })
		}
	}
}

func (b *builder) sortRank(rank int, neighbours func(*slot) []int32) {
	list := b.ranks[rank]
	for _, i := range list {
		s := &b.slots[i]
		s.weight = float64(s.pos)
		if near := neighbours(s); len(near) > 0 {
			sum := 0
			for _, n := range near {
				sum += b.slots[n].pos
			}
			s.weight = float64(sum) / float64(len(near))
		}
	}
	slices.SortFunc(list, func(i, j int32) int {
		if c := cmp.Compare(b.slots[i].weight, b.slots[j].weight); c != 0 {
			return c
		}
		return cmp.Compare(i, j) // boxes by id, then lines that pass
	})
	for pos, i := range list {
		b.slots[i].pos = pos
	}
}
