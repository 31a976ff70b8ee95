package graph_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/tui/graph"
)

// picture draws a layout with ASCII.
func picture(nodes []graph.Node, l *graph.Layout) string {
	rows := make([][]byte, l.H)
	for i := range rows {
		rows[i] = []byte(strings.Repeat(" ", l.W))
	}
	g := graph.NewGrid(0, 0, l.W, l.H)
	l.Lines(g)
	g.Each(func(x, y int, d graph.Dirs) {
		c := byte('+')
		switch {
		case d&graph.Arrow != 0:
			c = '>'
		case d&(graph.Up|graph.Down) == 0:
			c = '-'
		case d&(graph.Left|graph.Right) == 0:
			c = '|'
		}
		rows[y][x] = c
	})
	for _, b := range l.Boxes {
		name := nodes[b.Nodes[0]].ID
		if b.Group {
			name = strconv.Itoa(len(b.Nodes))
		}
		for y := range b.H {
			copy(rows[b.Y+y][b.X:], "["+strings.Repeat(".", b.W-2)+"]")
		}
		copy(rows[b.Y+1][b.X+1:b.X+b.W-1], name)
	}
	for _, text := range l.Labels {
		copy(rows[text.Y][text.X:], text.Text)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.TrimRight(string(r), " ")
	}
	return strings.Join(out, "\n")
}

// parse reads "a b / c d / a>c" : layers, then edges.
func parse(text string) (nodes []graph.Node, edges []graph.Edge) {
	for i, layer := range strings.Split(text, "/") {
		for word := range strings.FieldsSeq(layer) {
			if from, to, ok := strings.Cut(word, ">"); ok {
				to, label, _ := strings.Cut(to, "=")
				edges = append(edges, graph.Edge{From: from, To: to, Label: label})
			} else {
				nodes = append(nodes, graph.Node{ID: word, Layer: i})
			}
		}
	}
	return nodes, edges
}

func TestBuild_Pictures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, graph, want string }{
		{"Nothing", "", ""},
		{"One", "a", "" +
			"[...]\n" +
			"[a..]\n" +
			"[...]"},
		{"Straight", "a / b / a>b", "" +
			"[...]    [...]\n" +
			"[a..]--->[b..]\n" +
			"[...]    [...]"},
		{"Join", "a b / c / a>c b>c", "" +
			"[...]    [...]\n" +
			"[a..]-+->[c..]\n" +
			"[...] |  [...]\n" +
			"[...] |\n" +
			"[b..]-+\n" +
			"[...]"},
		{"All", "a b / c d / a>c a>d b>c b>d", "" +
			"[...]     [...]\n" +
			"[a..]-++->[c..]\n" +
			"[...] ||  [...]\n" +
			"[...] ||  [...]\n" +
			"[b..]-++->[d..]\n" +
			"[...]     [...]"},
		{"Long", "a / b / c / a>b b>c a>c", "" +
			"[...]    [...]    [...]\n" +
			"[a..]-+->[b..]-+->[c..]\n" +
			"[...] |  [...] |  [...]\n" +
			"      +--------+"},
		{"Labels", "a / b / c / a>b=true a>c=false b>c", "" +
			"[...]          [...]    [...]\n" +
			"[a..]-+--true->[b..]-+->[c..]\n" +
			"[...] |        [...] |  [...]\n" +
			"      +-false--------+"},
		{"LabelsTogether", "a / b / a>b=true a>b=false", "" +
			"[...]              [...]\n" +
			"[a..]--true/false->[b..]\n" +
			"[...]              [...]"},
		{"Cycle", "a / b / a>b b>a a>a x>b", "" +
			"[...]    [...]\n" +
			"[a..]--->[b..]\n" +
			"[...]    [...]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes, edges := parse(c.graph)
			got := picture(nodes, graph.Build(nodes, edges, graph.Options{BoxW: 5}))
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A layer with many nodes is one box, and those that matter.
func TestBuild_Fold(t *testing.T) {
	t.Parallel()
	nodes := []graph.Node{{ID: "z", Layer: 1}}
	edges := []graph.Edge{}
	for i := range 20 {
		nodes = append(nodes, graph.Node{ID: fmt.Sprintf("n%02d", i), Keep: i == 7})
		edges = append(edges, graph.Edge{From: fmt.Sprintf("n%02d", i), To: "z"})
	}
	l := graph.Build(nodes, edges, graph.Options{})
	if len(l.Boxes) != 3 || len(l.Links()) != 2 {
		t.Fatalf("%d boxes, %d links", len(l.Boxes), len(l.Links()))
	}
	for _, b := range l.Boxes[:2] {
		if b.Group && len(b.Nodes) != 19 || !b.Group && nodes[b.Nodes[0]].ID != "n07" {
			t.Errorf("box %+v", b)
		}
	}
	if l := graph.Build(nodes, edges, graph.Options{Fold: 100}); len(l.Boxes) != 21 {
		t.Errorf("%d boxes unfolded", len(l.Boxes))
	}
	for i := range nodes {
		nodes[i].Keep = true
	}
	if l := graph.Build(nodes, edges, graph.Options{}); len(l.Boxes) != 13 {
		t.Errorf("%d boxes when all matter", len(l.Boxes))
	}
}

// drawn draws a graph of nodes and edges, which may be anything.
func drawn(t *rapid.T) (nodes []graph.Node, edges []graph.Edge) {
	n := rapid.IntRange(0, 25).Draw(t, "nodes")
	layers := rapid.IntRange(1, 6).Draw(t, "layers")
	for i := range n {
		layer := rapid.IntRange(0, layers).Draw(t, "layer")
		nodes = append(nodes, graph.Node{ID: fmt.Sprint("n", i), Layer: layer, Keep: rapid.Bool().Draw(t, "keep")})
	}
	name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("n", rapid.IntRange(0, n).Draw(t, "node")) })
	for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
		edges = append(edges, graph.Edge{From: name.Draw(t, "from"), To: name.Draw(t, "to")})
	}
	return nodes, edges
}

// cells are the cells of a grid by place.
func cells(l *graph.Layout, fill func(*graph.Grid)) map[[2]int]graph.Dirs {
	g := graph.NewGrid(0, 0, l.W, l.H)
	fill(g)
	out := map[[2]int]graph.Dirs{}
	g.Each(func(x, y int, d graph.Dirs) { out[[2]int{x, y}] = d })
	return out
}

func TestBuild_Properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, edges := drawn(t)
		fold := rapid.SampledFrom([]int{0, 3, 100}).Draw(t, "fold")
		o := graph.Options{BoxW: 5, Fold: fold}
		l := graph.Build(nodes, edges, o)
		checkBoxes(t, nodes, l)
		checkLinks(t, nodes, edges, l)
		checkReading(t, l)
		checkOrderDoesNotMatter(t, nodes, edges, o, l)
	})
}

// checkBoxes: every node is in one box, no two overlap, and no line crosses one.
func checkBoxes(t *rapid.T, nodes []graph.Node, l *graph.Layout) {
	used := map[[2]int]bool{}
	shown := map[int]bool{}
	for _, b := range l.Boxes {
		for _, n := range b.Nodes {
			if shown[n] {
				t.Fatalf("node %d is drawn twice", n)
			}
			shown[n] = true
		}
		for y := range b.H {
			for x := range b.W {
				at := [2]int{b.X + x, b.Y + y}
				if used[at] || at[0] < 0 || at[0] >= l.W || at[1] >= l.H {
					t.Fatalf("box %+v is over another or outside of %dx%d", b, l.W, l.H)
				}
				used[at] = true
			}
		}
	}
	if len(shown) != len(nodes) {
		t.Fatalf("%d of %d nodes are drawn", len(shown), len(nodes))
	}
	for at := range cells(l, l.Lines) {
		if used[at] {
			t.Fatalf("a line crosses a box at %v", at)
		}
	}
}

// checkLinks: every edge to a later layer is drawn, and leads from one box to
// the other.
func checkLinks(t *rapid.T, nodes []graph.Node, edges []graph.Edge, l *graph.Layout) {
	layer, box := map[string]int{}, map[string]int{}
	for i, b := range l.Boxes {
		for _, n := range b.Nodes {
			layer[nodes[n].ID], box[nodes[n].ID] = nodes[n].Layer, i
		}
	}
	want := map[[2]int]bool{}
	for _, e := range edges {
		from, ok := layer[e.From]
		to, known := layer[e.To]
		if ok && known && from < to {
			want[[2]int{box[e.From], box[e.To]}] = true
		}
	}
	if len(l.Links())+l.Hidden != len(want) {
		t.Fatalf("%d of %d edges", len(l.Links()), len(want))
	}
	all := cells(l, l.Lines)
	for i, link := range l.Links() {
		if !want[link] {
			t.Fatalf("an edge %v that there is not", link)
		}
		turns := l.Turns(i)
		a, b := l.Boxes[link[0]], l.Boxes[link[1]]
		first, last := turns[0], turns[len(turns)-1]
		if first != [2]int{a.X + a.W, a.Y + 1} || last != [2]int{b.X - 1, b.Y + 1} || all[last]&graph.Arrow == 0 {
			t.Fatalf("from %+v to %+v by %v", a, b, turns)
		}
		for step := range unitSteps(turns) {
			if all[step.from]&step.out == 0 || all[step.to]&step.in == 0 {
				t.Fatalf("the line of %v has a hole at %v: %v", link, step, turns)
			}
		}
	}
}

// step is from one cell to the next.
type step struct {
	from, to [2]int
	out, in  graph.Dirs
}

func unitSteps(turns [][2]int) map[step]bool {
	out := map[step]bool{}
	for i := 1; i < len(turns); i++ {
		a, b := turns[i-1], turns[i]
		for a != b {
			next, dirs := a, [2]graph.Dirs{graph.Up, graph.Down}
			switch {
			case a[0] < b[0]:
				next[0]++
				dirs = [2]graph.Dirs{graph.Right, graph.Left}
			case a[0] > b[0]:
				next[0]--
				dirs = [2]graph.Dirs{graph.Left, graph.Right}
			case a[1] < b[1]:
				next[1]++
				dirs = [2]graph.Dirs{graph.Down, graph.Up}
			default:
				next[1]--
			}
			// Inside of a column only passing lines run; those are drawn, too.
			out[step{a, next, dirs[0], dirs[1]}] = true
			a = next
		}
	}
	return out
}

// checkReading: lines run together only where all that come lead to all that
// go, so that none is read wrongly.
func checkReading(t *rapid.T, l *graph.Layout) {
	linked := map[[2]int]bool{}
	on := map[step][][2]int{}
	for i, link := range l.Links() {
		linked[link] = true
		for s := range unitSteps(l.Turns(i)) {
			if s.from[0] > s.to[0] || s.from[1] > s.to[1] {
				s = step{from: s.to, to: s.from}
			}
			s.in, s.out = 0, 0
			on[s] = append(on[s], link)
		}
	}
	for at, links := range on {
		for _, a := range links {
			for _, b := range links {
				if !linked[[2]int{a[0], b[1]}] {
					t.Fatalf("at %v one reads an edge %d to %d: %v", at, a[0], b[1], links)
				}
			}
		}
	}
}

func checkOrderDoesNotMatter(t *rapid.T, nodes []graph.Node, edges []graph.Edge, o graph.Options, l *graph.Layout) {
	r := rand.New(rand.NewPCG(1, uint64(len(nodes))))
	mixed, lines := slices.Clone(nodes), slices.Clone(edges)
	r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	again := graph.Build(mixed, lines, o)
	if a, b := picture(nodes, l), picture(mixed, again); a != b {
		t.Fatalf("\n%s\nin another order\n%s", a, b)
	}
}

// The lines of one box are a part of all lines.
func TestLinesOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, edges := drawn(t)
		l := graph.Build(nodes, edges, graph.Options{BoxW: 5})
		all := cells(l, l.Lines)
		sum := map[[2]int]graph.Dirs{}
		for i := range l.Boxes {
			for at, d := range cells(l, func(g *graph.Grid) { l.LinesOf(i, g) }) {
				if all[at]&d != d {
					t.Fatalf("box %d has a line at %v that there is not", i, at)
				}
				sum[at] |= d
			}
		}
		if !reflect.DeepEqual(all, sum) {
			t.Fatal("all lines are those of some box")
		}
	})
}

// A part of a layout is drawn as it is in the whole.
func TestLines_Part(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, edges := drawn(t)
		l := graph.Build(nodes, edges, graph.Options{BoxW: 5})
		all := cells(l, l.Lines)
		x, y := rapid.IntRange(0, 40).Draw(t, "x"), rapid.IntRange(0, 20).Draw(t, "y")
		g := graph.NewGrid(x, y, 17, 5)
		l.Lines(g)
		n := 0
		g.Each(func(gx, gy int, d graph.Dirs) {
			n++
			if all[[2]int{x + gx, y + gy}] != d {
				t.Fatalf("at %d,%d", gx, gy)
			}
		})
		for at := range all {
			if at[0] >= x && at[0] < x+17 && at[1] >= y && at[1] < y+5 {
				n--
			}
		}
		if n != 0 {
			t.Fatalf("%d cells too many", n)
		}
	})
}

// big is a graph of 1,000 nodes in 50 layers.
func big() (nodes []graph.Node, edges []graph.Edge) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		nodes = append(nodes, graph.Node{ID: fmt.Sprintf("task_%04d", i), Layer: i / 20})
		for range min(i/20, 3) {
			from := (i/20-1-r.IntN(min(i/20, 4)))*20 + r.IntN(20)
			edges = append(edges, graph.Edge{From: fmt.Sprintf("task_%04d", from), To: fmt.Sprintf("task_%04d", i)})
		}
	}
	return nodes, edges
}

func TestBuild_Hidden(t *testing.T) {
	t.Parallel()
	var nodes []graph.Node
	var edges []graph.Edge
	for i := range 200 {
		nodes = append(nodes, graph.Node{ID: fmt.Sprintf("%03d", i), Layer: i})
		for j := range i {
			edges = append(edges, graph.Edge{From: fmt.Sprintf("%03d", j), To: fmt.Sprintf("%03d", i)})
		}
	}
	l := graph.Build(nodes, edges, graph.Options{})
	if l.Hidden == 0 || len(l.Links())+l.Hidden != len(edges) || len(l.Links()) < 199 {
		t.Errorf("%d links, %d hidden of %d", len(l.Links()), l.Hidden, len(edges))
	}
}

func BenchmarkBuild1000(b *testing.B) {
	nodes, edges := big()
	for b.Loop() {
		graph.Build(nodes, edges, graph.Options{Fold: 1000})
	}
}

func BenchmarkBuild1000Folded(b *testing.B) {
	nodes, edges := big()
	for b.Loop() {
		graph.Build(nodes, edges, graph.Options{})
	}
}

func BenchmarkLines(b *testing.B) {
	nodes, edges := big()
	l := graph.Build(nodes, edges, graph.Options{Fold: 1000})
	for b.Loop() {
		g := graph.NewGrid(400, 10, 160, 45)
		l.Lines(g)
	}
}
