package paint

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// odd are texts that a terminal does more with than to show them.
var odd = []string{
	"\x1b[2J", "\x07", "\r\n\t", "\u202e", "\ufeff", "e\u0301", "\u0301", "\u0903", "日本", "👩‍👩‍👧", "👩\u200d", "🏳️‍🌈", "\U0001f1e9", "\U0001f1e9\U0001f1ea",
	"\u1100", "\u1161", "\u11a8", "각", "가", "\u0d4e", "\xff", "\x9b", "\xe2\x94A", "─┃█", "ﷺ", "\u00ad", "﷽", "\U000e0041",
}

func text() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(odd), rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{"a", " ", "long text"}))
}

// TestCanvas_ASCII: marks that texts have are drawn in ASCII where the theme is; letters stay.
func TestCanvas_ASCII(t *testing.T) {
	t.Parallel()
	for ascii, want := range map[bool]string{true: `<KEY> ~ "é" - x`, false: "«KEY» … “é” – ×"} {
		c := NewCanvas(15, 1, NewTheme(Ansi, NoColor, ascii))
		c.Area().Put(0, 0, Style{}, "«KEY» … “é” – ×")
		if got := strings.TrimRight(c.Plain(), " \n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCanvas_Size draws anything anywhere: the canvas stays as large as it is,
// and nothing but text is in it.
func TestCanvas_Size(t *testing.T) {
	t.Parallel()
	theme := NewTheme(Ansi, NoColor, false)
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 30).Draw(t, "w"), rapid.IntRange(1, 5).Draw(t, "h")
		c := NewCanvas(w, h, theme)
		for range rapid.IntRange(0, 10).Draw(t, "times") {
			a := c.Area().Sub(rapid.IntRange(-2, w).Draw(t, "left"), rapid.IntRange(-2, h).Draw(t, "top"), rapid.IntRange(0, w).Draw(t, "aw"), rapid.IntRange(0, h).Draw(t, "ah"))
			x, y := rapid.IntRange(-5, w).Draw(t, "x"), rapid.IntRange(-2, h).Draw(t, "y")
			s := text().Draw(t, "text")
			switch rapid.IntRange(0, 6).Draw(t, "how") {
			case 0:
				a.Put(x, y, Style{}, s)
			case 1:
				a.Text(x, y, w, Style{}, s)
			case 2:
				a.Right(x, y, rapid.IntRange(0, w).Draw(t, "rw"), Style{}, s)
			case 3:
				a.Frame(Title{Left: s, Right: s, Foot: s, Focus: true})
			case 4:
				a.Rule(y, s)
			case 5:
				a.Blank()
			case 6:
				a.Bar(x, y, rapid.IntRange(0, w).Draw(t, "bar"), Style{}, 0.5)
			}
		}
		lines := strings.Split(c.Plain(), "\n")
		if len(lines) != h {
			t.Fatalf("%d lines, want %d", len(lines), h)
		}
		for _, line := range lines {
			if got := Width(line); got != w {
				t.Fatalf("%q is %d columns wide, want %d", line, got, w)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
				t.Fatalf("control character in %q", line)
			}
		}
	})
}

// TestClip_Width cuts texts: what is left fits, and is the beginning of it.
func TestClip_Width(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, w := text().Draw(t, "text")+text().Draw(t, "more"), rapid.IntRange(0, 20).Draw(t, "w")
		got := Clip(s, w, "…")
		if Width(got) > w {
			t.Fatalf("%q is %d columns wide, want at most %d", got, Width(got), w)
		}
		if head := strings.TrimSuffix(got, "…"); !strings.HasPrefix(s, head) {
			t.Fatalf("%q is not the beginning of %q", head, s)
		}
		if Width(s) <= w && got != s {
			t.Fatalf("%q was cut to %q, and fits into %d", s, got, w)
		}
	})
}

// TestWrap_Whole breaks texts into lines: they fit, and only blanks are gone.
func TestWrap_Whole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, w := strings.Join(rapid.SliceOfN(text(), 0, 6).Draw(t, "words"), " "), rapid.IntRange(2, 20).Draw(t, "w")
		lines := Wrap(s, w)
		for _, line := range lines {
			if Width(line) > w {
				t.Fatalf("%q is %d columns wide, want at most %d", line, Width(line), w)
			}
		}
		bare := strings.NewReplacer(" ", "", "\n", "")
		if got, want := bare.Replace(strings.Join(lines, "")), bare.Replace(s); got != want {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

// TestCanvas_Style draws a selected row: text stays, and styles end with it.
func TestCanvas_Style(t *testing.T) {
	t.Parallel()
	c := NewCanvas(6, 2, NewTheme(Ansi, NoColor, false))
	c.Area().Put(0, 0, Style{}, "row")
	c.Area().Sub(0, 0, 4, 1).Style(0, Style.Selected)
	if got, want := c.String(), "\x1b[7mrow \x1b[0m  \n      "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := c.Plain(), "row   \n      "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCanvas_WideCut overwrites half of a wide character: the other half goes.
func TestCanvas_WideCut(t *testing.T) {
	t.Parallel()
	c := NewCanvas(6, 1, NewTheme(Ansi, Dumb, false))
	c.Area().Put(0, 0, Style{}, "日本語")
	c.Area().Put(1, 0, Style{}, "x")
	c.Area().Put(4, 0, Style{}, "y")
	if got, want := c.Plain(), " x本y "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTheme_Attributes keeps attributes where there are no colours, and drops
// all on a dumb terminal.
func TestTheme_Attributes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile Profile
		want    string
	}{
		{Dumb, ">x"}, {NoColor, "\x1b[1;7m>x\x1b[0m"}, {Ansi16, "\x1b[1;7;31m>x\x1b[0m"},
	} {
		c := NewCanvas(2, 1, NewTheme(Ansi, tt.profile, false))
		c.Area().Put(0, 0, Style{Role: Danger}.Bold().Selected(), ">x")
		if got := c.String(); got != tt.want {
			t.Errorf("profile %d: %q, want %q", tt.profile, got, tt.want)
		}
	}
}

func BenchmarkCanvas_Frame(b *testing.B) {
	c := NewCanvas(160, 45, NewTheme(Dark, TrueColor, false))
	line := strings.Repeat("some text ● ", 13)
	b.ReportAllocs()
	for b.Loop() {
		c.Clear()
		for y := range 45 {
			c.Area().Put(0, y, Style{Role: Role(y % 3)}, line)
		}
		_ = c.String()
	}
}

// TestCanvas_Clinging draws parts of a grapheme one by one: beside each other
// they would be one, and the line too short.
func TestCanvas_Clinging(t *testing.T) {
	t.Parallel()
	for _, parts := range [][2]string{
		{"\u1100", "\u1161"}, {"\U0001f1e9", "\U0001f1ea"}, {"\u0d4e", "a"}, {"👩\u200d", "👧"}, {"k", "\u0903"}, {"e", "\u0301"},
	} {
		c := NewCanvas(8, 1, NewTheme(Ansi, Dumb, false))
		used := c.Area().Put(0, 0, Style{}, parts[0])
		c.Area().Put(used, 0, Style{}, parts[1])
		if got := Width(c.Plain()); got != 8 {
			t.Errorf("%q: the line is %d columns wide, want 8: %q", parts, got, c.Plain())
		}
	}
}

// TestArea_BlankCutsWide blanks halves of wide characters: the other halves go.
func TestArea_BlankCutsWide(t *testing.T) {
	t.Parallel()
	c := NewCanvas(6, 1, NewTheme(Ansi, Dumb, false))
	c.Area().Put(0, 0, Style{}, "日本語")
	c.Area().Sub(1, 0, 4, 1).Blank()
	if got, want := c.Plain(), "      "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
