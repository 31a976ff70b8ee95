package widget

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// pagerRows draws a pager and returns its rows, without blanks at their ends.
func pagerRows(p *Pager, w, h int) []string {
	c := paint.NewCanvas(w, h, paint.NewTheme(paint.Ansi, paint.Dumb, true))
	p.Draw(c.Area())
	rows := strings.Split(c.Plain(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return rows
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	for len(got) > len(want) && got[len(got)-1] == "" {
		got = got[:len(got)-1]
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestPager_Scroll(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("1\n2\n3\n4\n5")
	wantRows(t, pagerRows(p, 20, 2), "1", "2")
	if p.AtEnd() || p.Lines() != 5 || p.Position() != "1-2/5" {
		t.Errorf("at end %v, %d lines, %s", p.AtEnd(), p.Lines(), p.Position())
	}
	for _, step := range []struct {
		act  keys.Action
		want []string
	}{
		{keys.Down, []string{"2", "3"}},
		{keys.HalfDown, []string{"3", "4"}},
		{keys.Up, []string{"2", "3"}},
		{keys.Last, []string{"4", "5"}},
		{keys.Down, []string{"4", "5"}},
		{keys.PageUp, []string{"3", "4"}},
		{keys.First, []string{"1", "2"}},
		{keys.Up, []string{"1", "2"}},
	} {
		if !p.Do(step.act) {
			t.Errorf("%s is not handled", step.act)
		}
		wantRows(t, pagerRows(p, 20, 2), step.want...)
	}
	if !p.AtEnd() {
		t.Error("the end was in view and does not count")
	}
	if p.Do(keys.Approve) || p.Do(keys.Open) || p.Do(keys.Left) {
		t.Error("what is not the pager's is handled")
	}
}

func TestPager_Wrap(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("0123456789abcdefghijk\nend")
	wantRows(t, pagerRows(p, 12, 5), "0123456789ab", "+ cdefghijk", "end")
	if !p.AtEnd() {
		t.Error("all of it is shown")
	}
	p.Do(keys.Wrap)
	wantRows(t, pagerRows(p, 12, 5), "0123456789ab", "end")
	p.Do(keys.Right)
	wantRows(t, pagerRows(p, 12, 5), "89abcdefghij")
	p.Do(keys.Right)
	p.Do(keys.Right)
	wantRows(t, pagerRows(p, 12, 5), "9abcdefghijk")
	p.Do(keys.Left)
	p.Do(keys.Left)
	wantRows(t, pagerRows(p, 12, 5), "0123456789ab", "end")
}

// Lines wrap at blanks, unless that would leave most of a row empty; a blank at
// the edge begins no row.
func TestPager_WrapsAtBlanks(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("Once the keys are there, approve.\nlabel 0123456789abcdefghijklm\n0123456789abcdef 01 2")
	wantRows(t, pagerRows(p, 16, 8), "Once the keys", "+ are there,", "+ approve.", "label 0123456789", "+ abcdefghijklm", "0123456789abcdef", "+ 01 2")
	if !p.AtEnd() {
		t.Error("all of it is shown")
	}
}

// A line that is cut off was not seen.
func TestPager_CutIsNotSeen(t *testing.T) {
	t.Parallel()
	p := &Pager{Cut: true}
	p.SetText("0123456789abcdefghijk")
	pagerRows(p, 12, 5)
	if p.AtEnd() {
		t.Error("its end is out of view")
	}
	pagerRows(p, 30, 5)
	if !p.AtEnd() {
		t.Error("all of it is shown")
	}
	p.SetText("0123456789abcdefghijk\nmore")
	if p.AtEnd() {
		t.Error("the text has changed")
	}
}

func TestPager_ForeignText(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("a\x1b[2Jb\rc\td\u202ee\xff\u2028")
	got := strings.Join(pagerRows(p, 60, 2), "\n")
	want := `a\x1b[2Jb\rc    d\u{202e}e\xff\u{2028}`
	if strings.TrimSpace(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPager_Lines(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	list := []Line{{Label: "tool   ", Text: "a:b\napproved"}, {Text: "+ 1", Style: paint.Style{Role: paint.OK}}}
	p.SetLines(list)
	wantRows(t, pagerRows(p, 40, 4), `tool   a:b\napproved`, "+ 1")
	p.Do(keys.Last)
	p.SetLines([]Line{{Label: "tool   ", Text: "c"}})
	wantRows(t, pagerRows(p, 40, 4), `tool   c`)
	p.SetText("plain")
	wantRows(t, pagerRows(p, 40, 4), "plain")
}

func TestPager_Follow(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("1\n2\n3")
	p.Do(keys.Follow)
	wantRows(t, pagerRows(p, 12, 2), "2", "3")
	p.SetText("1\n2\n3 goes on and on\n4")
	wantRows(t, pagerRows(p, 12, 2), "+ and on", "4")
	p.Do(keys.Up)
	p.SetText("1\n2\n3 goes on and on\n4\n5")
	wantRows(t, pagerRows(p, 12, 2), "3 goes on", "+ and on")
	if p.Following {
		t.Error("who scrolls up does not follow")
	}
}

func TestPager_Find(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("copy\nb\nc\nd\ne COPY\nf\ncopyCopy")
	pagerRows(p, 20, 2)
	if n := p.Find("Copy"); n != 4 {
		t.Fatalf("%d hits", n)
	}
	for _, want := range []string{"2 of 4", "3 of 4", "4 of 4", "1 of 4"} {
		p.Do(keys.NextMatch)
		rows := pagerRows(p, 20, 2)
		if !strings.HasSuffix(p.Searching(), want) || !strings.Contains(strings.ToLower(strings.Join(rows, " ")), "copy") {
			t.Errorf("at %s, want %s: %q", p.Searching(), want, rows)
		}
	}
	p.Do(keys.PreviousMatch)
	if !strings.HasSuffix(p.Searching(), "4 of 4") {
		t.Error(p.Searching())
	}
	if p.Find("zzz"); !strings.HasSuffix(p.Searching(), "no match") || !p.Do(keys.NextMatch) {
		t.Error("no hit is said")
	}
	if p.Find(""); p.Searching() != "" || p.Do(keys.NextMatch) {
		t.Error("the search has ended")
	}
}

// Hits are marked where they stand, in wrapped rows, too.
func TestPager_Marks(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	p.SetText("0123456789abcdef")
	c := paint.NewCanvas(12, 2, paint.NewTheme(paint.Ansi, paint.NoColor, true))
	p.Find("abcd")
	p.Draw(c.Area())
	if got, want := c.String(), "0123456789\x1b[7mab\x1b[0m\n+ \x1b[7mcd\x1b[0mef      "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The wrapped rows hold all of the text, in order, each as wide as the view at
// most, and a text that grows has the rows of one that was there at once.
func TestPager_RowsHoldTheText(t *testing.T) {
	t.Parallel()
	letters := rapid.SampledFrom([]rune("aB \n\té漢\u0301\ufe0f\x1b\u202e👍\u200d"))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(letters).Draw(t, "text")
		w := rapid.IntRange(10, 40).Draw(t, "width")
		grown := &Pager{}
		at := rapid.IntRange(0, len(text)).Draw(t, "cut")
		for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
			at--
		}
		grown.SetText(text[:at])
		pagerRows(grown, w, 3)
		grown.SetText(text)
		pagerRows(grown, w, 3)
		p := &Pager{}
		p.SetText(text)
		pagerRows(p, w, 3)
		if a, b := fmt.Sprint(p.index.rows, p.index.starts), fmt.Sprint(grown.index.rows, grown.index.starts); a != b {
			t.Fatalf("rows %s, grown %s", a, b)
		}
		from := 0
		for _, r := range p.index.rows {
			if r.start != from && (r.start != from+1 || text[from] != '\n') {
				t.Fatalf("row at %d after %d of %q", r.start, from, text)
			}
			room := w
			if r.start > p.index.starts[r.line] {
				room -= indent(w)
			}
			if n := paint.Width(strings.TrimSuffix(shown(text[r.start:r.end]), " ")); n > room {
				t.Fatalf("row %q takes %d of %d columns", text[r.start:r.end], n, room)
			}
			from = r.end
		}
		if from != len(text) {
			t.Fatalf("the rows end at %d of %d", from, len(text))
		}
	})
}

// bigJSON is an indented value of a MiB.
func bigJSON() string {
	var b strings.Builder
	b.WriteString("{\n")
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "  \"key_%06d\": \"value of the key, with some text \\u001b and é behind it\",\n", i)
	}
	b.WriteString("  \"end\": true\n}")
	return b.String()
}

func BenchmarkPager_First1MiB(b *testing.B) {
	text := bigJSON()
	for b.Loop() {
		p := &Pager{}
		p.SetText(text)
		p.Draw(paint.NewCanvas(160, 45, paint.NewTheme(paint.Ansi, paint.NoColor, false)).Area())
	}
}

func BenchmarkPager_OneLine1MiB(b *testing.B) {
	text := strings.Repeat("漢字 and ascii, ", 1<<20/17)
	for b.Loop() {
		p := &Pager{}
		p.SetText(text)
		p.Draw(paint.NewCanvas(160, 45, paint.NewTheme(paint.Ansi, paint.NoColor, false)).Area())
	}
}

func BenchmarkPager_Scroll1MiB(b *testing.B) {
	p := &Pager{}
	p.SetText(bigJSON())
	c := paint.NewCanvas(160, 45, paint.NewTheme(paint.Ansi, paint.NoColor, false))
	p.Draw(c.Area())
	p.Find("key")
	for b.Loop() {
		p.Do(keys.Down)
		c.Clear()
		p.Draw(c.Area())
	}
}

// TestPager_PageByPage: what is jumped over was not read, and a page down at the end
// goes back to it; what only identifies the text need not be read.
func TestPager_PageByPage(t *testing.T) {
	t.Parallel()
	p := &Pager{}
	lines := make([]Line, 10)
	for i := range lines {
		lines[i] = Line{Text: strings.Repeat("x", i+1), Aside: i >= 8}
	}
	p.SetLines(lines)
	pagerRows(p, 20, 3)
	if p.Unread() != 5 || p.AtEnd() {
		t.Errorf("%d rows unread, at end %v", p.Unread(), p.AtEnd())
	}
	p.Do(keys.Last)
	pagerRows(p, 20, 3)
	if p.Unread() != 5 || p.AtEnd() {
		t.Errorf("after a jump %d rows unread, at end %v", p.Unread(), p.AtEnd())
	}
	p.Do(keys.PageDown)
	wantRows(t, pagerRows(p, 20, 3), "xxxx", "xxxxx", "xxxxxx")
	p.Do(keys.PageDown)
	pagerRows(p, 20, 3)
	if p.Unread() != 0 || !p.AtEnd() || p.Whole() {
		t.Errorf("%d rows unread, at end %v, whole %v", p.Unread(), p.AtEnd(), p.Whole())
	}
	p.Do(keys.PageDown)
	pagerRows(p, 20, 3)
	if !p.Whole() {
		t.Error("the end was in view, and the text is not whole")
	}
	p.SetLines(append(lines[:8:8], Line{Text: "more"}))
	if p.AtEnd() {
		t.Error("what is new was not read")
	}
}

// TestInput_Fresh: what is typed into a proposed text takes its place, and a key that moves
// the cursor keeps it.
func TestInput_Fresh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys []keys.Key
		want string
	}{
		{[]keys.Key{{Name: "7", Text: "7"}, {Name: "d", Text: "d"}}, "7d"},
		{[]keys.Key{{Text: "2w", Paste: true}}, "2w"},
		{[]keys.Key{{Name: "end"}, {Name: "x", Text: "x"}}, "1dx"},
		{[]keys.Key{{Name: "left"}, {Name: "x", Text: "x"}}, "1xd"},
		{[]keys.Key{{Name: "backspace"}}, ""},
		{[]keys.Key{{Name: "up"}}, "1d"},
	} {
		in := Input{Text: "1d", At: 2, Fresh: true}
		for _, k := range c.keys {
			in.Key(k)
		}
		if in.Text != c.want || in.Fresh {
			t.Errorf("%v: %q, want %q", c.keys, in.Text, c.want)
		}
	}
}
