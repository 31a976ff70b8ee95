// Package widget holds the parts that screens are made of: long texts, tables, and a
// line that is typed. It knows nothing of runs and approvals.
package widget

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// Line is one line of a pager that was made here: a label and a text, both as
// they came. A newline in them is shown as an escape.
type Line struct {
	Label string // drawn muted, before the text
	Text  string
	Style paint.Style
	// Aside is set for what only identifies what is shown, a digest say: at the end of
	// the text it need not have been in view.
	Aside bool
}

// Pager shows a long text and scrolls through it. Foreign text goes in as it
// is: what it would do to a terminal is shown as escapes. Only rows in view are
// formatted; where they begin is worked out once per text and width. The zero
// pager is empty, and wraps.
type Pager struct {
	// style tells how a line looks by its text; nil: plain. For SetText only.
	style func(text string) paint.Style
	// Cut ends lines at the edge instead of wrapping them.
	Cut bool
	// Following stays at the end while the text grows.
	Following bool

	text   string
	count  int    // lines of text
	parts  []Line // of SetLines: one for each line of text
	index  rowIndex
	top    int // the first row in view
	left   int // columns to the left of the view, with cut
	height int // of the view, as drawn last
	drawn  bool
	read   int // so much of the text was in view, from its beginning on, with nothing jumped over
	must   int // so much of it has to be read
	search textSearch
}

// SetText shows another text. One that begins like the text before keeps the
// place; any other is shown from its beginning.
func (p *Pager) SetText(text string) {
	if p.parts == nil && text == p.text {
		return
	}
	p.parts = nil
	p.put(text)
}

// SetLines shows lines, each in its own style. It reports whether they say
// something else than before.
func (p *Pager) SetLines(list []Line) (changed bool) {
	var b strings.Builder
	list = slices.Clone(list)
	for i, l := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		list[i].Label = OneLine(l.Label)
		b.WriteString(list[i].Label)
		b.WriteString(OneLine(l.Text))
	}
	p.parts = list
	text := b.String()
	if text == p.text {
		return false
	}
	p.put(text)
	return true
}

// Reword shows lines that say the same as those before in other words: the place stays, and what
// was read counts.
func (p *Pager) Reword(list []Line) {
	before, top, left, read, drawn := p.text, p.top, p.left, p.read, p.drawn
	if !p.SetLines(list) {
		return
	}
	same := 0
	for same < len(before) && same < len(p.text) && before[same] == p.text[same] {
		same++
	}
	if read > same {
		read = max(read+len(p.text)-len(before), same)
	}
	p.top, p.left, p.read, p.drawn = top, left, read, drawn
}

// put takes a text that differs from the one before.
func (p *Pager) put(text string) {
	grown := p.text != "" && strings.HasPrefix(text, p.text)
	p.read = min(p.read, len(p.text))
	p.drawn, p.text, p.count, p.must = false, text, strings.Count(text, "\n")+1, len(text)
	for i := len(p.parts) - 1; i > 0 && p.parts[i].Aside; i-- {
		p.must -= len(p.parts[i].Label) + len(OneLine(p.parts[i].Text)) + len("\n")
	}
	if !grown {
		p.top, p.left, p.read = 0, 0, 0
		p.index.drop()
	}
	p.index.stale = true
	p.search.run(p.text)
}

// OneLine shows newlines as escapes.
func OneLine(text string) string {
	if strings.IndexByte(text, '\n') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\n", `\n`)
}

// Lines is how many lines the text has, however they are wrapped.
func (p *Pager) Lines() int {
	if p.text == "" {
		return len(p.parts)
	}
	return p.count
}

// AtEnd reports whether all of this text has been in view, page by page and with no
// line cut off. What was jumped over was not.
func (p *Pager) AtEnd() bool { return p.drawn && p.read >= p.must }

// Whole reports whether what only identifies the text has been in view as well.
func (p *Pager) Whole() bool { return p.drawn && p.read >= len(p.text) }

// Unread is how many rows have not been in view yet.
func (p *Pager) Unread() int {
	rows := p.index.rows
	at := func(offset int) int {
		return sort.Search(len(rows), func(i int) bool { return rows[i].start >= offset })
	}
	return max(at(p.must+1)-at(p.read), 0)
}

// Skipped is how many rows above the view have not been in view yet: they were jumped over.
func (p *Pager) Skipped() int {
	rows := p.index.rows
	return max(p.top-sort.Search(len(rows), func(i int) bool { return rows[i].start >= p.read }), 0)
}

// Left is how many rows there are yet to read from the view on: those below it, of which some
// may have been in view before, or those that were jumped over where that is more.
func (p *Pager) Left() int {
	rows := p.index.rows
	end := sort.Search(len(rows), func(i int) bool { return rows[i].start >= p.must+1 })
	return max(end-p.top-p.height, p.Unread())
}

// Rows are how many rows the text takes, as drawn last.
func (p *Pager) Rows() int { return len(p.index.rows) }

// Below is how many rows there are below the view.
func (p *Pager) Below() int { return max(len(p.index.rows)-p.top-p.height, 0) }

// Position says which rows are in view, for the foot of a frame.
func (p *Pager) Position() string {
	n := len(p.index.rows)
	if n <= p.height {
		return "all shown"
	}
	return fmt.Sprintf("%d-%d/%d", p.top+1, min(p.top+p.height, n), n)
}

// Draw draws the rows in view into the whole of an area.
func (p *Pager) Draw(a paint.Area) {
	if a.W <= 0 || a.H <= 0 {
		return
	}
	p.height = a.H
	p.layout(a.W)
	for y := 0; y < a.H && p.top+y < len(p.index.rows); y++ {
		p.drawRow(a, y, p.index.rows[p.top+y])
	}
	if p.Cut && p.index.widest > a.W {
		return
	}
	p.drawn = true
	switch end := p.top + a.H; {
	case p.index.offset(p.top) > p.read: // there is a gap above the view
	case end >= len(p.index.rows):
		p.read = len(p.text)
	default:
		p.read = max(p.read, p.index.offset(end))
	}
}

// layout brings the rows up to date and keeps the view inside the text.
func (p *Pager) layout(w int) {
	if p.index.stale || p.index.w != w || p.index.cut != p.Cut {
		at := p.index.offset(p.top)
		same := p.index.w == w && p.index.cut == p.Cut
		p.index.build(p.text, w, p.Cut)
		if !same {
			p.top = p.index.rowAt(at)
		}
	}
	last := max(len(p.index.rows)-p.height, 0)
	if p.Following {
		p.top = last
	}
	p.top = max(min(p.top, last), 0)
	p.left = max(min(p.left, p.index.widest-w), 0)
	if !p.Cut {
		p.left = 0
	}
}

// drawRow draws one row; what goes on from the row before begins with a mark.
func (p *Pager) drawRow(a paint.Area, y int, r row) {
	begin := p.index.starts[r.line]
	style, label := paint.Style{}, 0
	switch {
	case p.parts != nil:
		style, label = p.parts[r.line].Style, len(p.parts[r.line].Label)
	case p.style != nil:
		style = p.style(p.index.lineText(p.text, int(r.line)))
	}
	x, from, to := 0, r.start, r.end
	if from > begin {
		if x = indent(a.W); x > 0 {
			a.Put(0, y, paint.Style{Role: paint.Muted}, a.Theme().Glyph.JoinUp)
		}
	}
	if p.Cut {
		skipped := 0
		from, skipped = p.index.skip(p.text, from, to, p.left)
		x = skipped - p.left
		to, _ = p.index.skip(p.text, from, to, a.W-x)
	}
	if labelled := min(begin+label, to); labelled > from {
		x += a.Put(x, y, paint.Style{Role: paint.Muted}, shown(p.text[from:labelled]))
		from = labelled
	}
	at := x
	a.Put(x, y, style, shown(p.text[from:to]))
	for _, hit := range p.search.within(from, to) {
		x := at + p.index.width(p.text[from:max(hit, from)])
		a.Put(x, y, style.Selected(), shown(p.text[max(hit, from):min(hit+len(p.search.query), to)]))
	}
}

// shown makes a part of a line safe to draw; tabs are four blanks.
func shown(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return strings.ReplaceAll(core.Visible(s, 0, true), "\t", "    ")
		}
	}
	return s
}

// Do scrolls, searches on and changes how lines are shown. What is not about
// the pager is not handled.
func (p *Pager) Do(act keys.Action) bool {
	half := max(p.height/2, 1)
	switch act {
	case keys.Up:
		p.move(-1)
	case keys.Down:
		p.move(1)
	case keys.HalfUp:
		p.move(-half)
	case keys.HalfDown:
		p.move(half)
	case keys.PageUp:
		p.move(-max(p.height-1, 1))
	case keys.PageDown:
		if p.Below() == 0 && p.Unread() > 0 { // it goes on where something was jumped over
			p.top = p.index.rowAt(p.read)
			break
		}
		p.move(max(p.height-1, 1))
	case keys.First:
		p.move(-len(p.text) - 1)
	case keys.Last:
		p.move(len(p.text) + 1)
	case keys.Wrap:
		p.Cut = !p.Cut
	case keys.Follow:
		p.Following = !p.Following
	case keys.NextMatch, keys.PreviousMatch:
		return p.jump(act == keys.NextMatch)
	case keys.Left, keys.Right:
		return p.sideways(act == keys.Right)
	default:
		return false
	}
	return true
}

// move scrolls by rows, as far as there are some.
func (p *Pager) move(by int) {
	p.top = max(min(p.top+by, len(p.index.rows)-p.height), 0)
	p.Following = p.Following && by > 0
}

// sideways scrolls where lines are cut; elsewhere the keys mean something else.
func (p *Pager) sideways(right bool) bool {
	if !p.Cut {
		return false
	}
	const step = 8
	if right {
		p.left += step
	} else {
		p.left = max(p.left-step, 0)
	}
	return true
}

// Find searches for a text, without regard to the case of ASCII letters, and
// scrolls to the first hit from the view on. An empty query ends the search.
func (p *Pager) Find(query string) (hits int) {
	p.search.query = query
	p.search.run(p.text)
	p.search.at = sort.SearchInts(p.search.hits, p.index.offset(p.top))
	if p.search.at == len(p.search.hits) {
		p.search.at = 0
	}
	p.reveal()
	return len(p.search.hits)
}

// jump goes to the next or the previous hit, around the ends.
func (p *Pager) jump(next bool) bool {
	n := len(p.search.hits)
	if n == 0 {
		return p.search.query != ""
	}
	by := n - 1
	if next {
		by = 1
	}
	p.search.at = (p.search.at + by) % n
	p.reveal()
	return true
}

// reveal scrolls so that the hit is in view.
func (p *Pager) reveal() {
	if p.search.at >= len(p.search.hits) {
		return
	}
	at := p.index.rowAt(p.search.hits[p.search.at])
	if at < p.top || at >= p.top+p.height {
		p.Following = false
		p.top = max(at-p.height/3, 0)
	}
}

// Text is the whole text as it came.
func (p *Pager) Text() string { return p.text }

// Query is what is searched for.
func (p *Pager) Query() string { return p.search.query }

// Searching says what is searched for and where, or nothing.
func (p *Pager) Searching() string {
	switch n := len(p.search.hits); {
	case p.search.query == "":
		return ""
	case n == 0:
		return "/ " + core.Visible(p.search.query, 40, false) + "   no match"
	default:
		return fmt.Sprintf("/ %s   %d of %d", core.Visible(p.search.query, 40, false), p.search.at+1, n)
	}
}

// textSearch is where a query occurs in a text.
type textSearch struct {
	query string
	hits  []int // byte offsets, rising
	at    int   // the hit that was gone to
}

// maxHits bounds what a search for a single letter keeps.
const maxHits = 100_000

// run finds all hits anew.
func (s *textSearch) run(text string) {
	s.hits = s.hits[:0]
	if s.query == "" {
		return
	}
	low, query := lowASCII(text), lowASCII(s.query)
	for from := 0; len(s.hits) < maxHits; {
		i := strings.Index(low[from:], query)
		if i < 0 {
			break
		}
		s.hits = append(s.hits, from+i)
		from += i + len(query)
	}
	s.at = max(min(s.at, len(s.hits)-1), 0)
}

// within returns the hits that touch a part of the text.
func (s *textSearch) within(from, to int) []int {
	if len(s.hits) == 0 {
		return nil
	}
	first := sort.SearchInts(s.hits, from-len(s.query)+1)
	return s.hits[first:max(sort.SearchInts(s.hits, to), first)]
}

// lowASCII lowers letters and keeps every byte at its place.
func lowASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// runeAt reads the rune at a place; size is 1 for a broken one.
func runeAt(s string, i int) (r rune, size int) {
	if c := s[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s[i:])
}
