package paint

import (
	"cmp"
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Role is what a text is for; the theme says how that looks.
type Role uint8

// The roles.
const (
	Text Role = iota
	Muted
	Accent
	OK
	Warn
	Danger
	Info
	Border
	BorderFocus
	roles
)

// Attr are attributes beside the colour.
type Attr uint8

// The attributes. They survive where there are no colours.
const (
	Bold Attr = 1 << iota
	Selected
	attrs
)

// Style is how a cell looks.
type Style struct {
	Role Role
	Attr Attr
}

// Bold returns the style in bold.
func (s Style) Bold() Style { s.Attr |= Bold; return s }

// Selected returns the style as it looks in the selected row.
func (s Style) Selected() Style { s.Attr |= Selected; return s }

// Palette says which colours a theme has.
type Palette string

// The palettes. Auto is Ansi, and Light once the terminal has said that it is. Ansi leaves the colours to the terminal's own scheme; Modus
// can be told apart without seeing red and green.
const (
	Auto  Palette = "auto"
	Ansi  Palette = "ansi"
	Dark  Palette = "dark"
	Light Palette = "light"
	Modus Palette = "modus"
)

// Profile says what a terminal can show.
type Profile uint8

// The profiles, from least to most. NoColor has attributes, Dumb has nothing.
const (
	Dumb Profile = iota
	NoColor
	Ansi16
	Ansi256
	TrueColor
)

// Theme is how everything looks on one terminal.
type Theme struct {
	Glyph Glyphs
	ascii bool
	pairs [int(roles) * int(attrs)]pair
}

type pair struct{ prefix, suffix string }

// NewTheme returns a theme. asciiOnly draws with ASCII characters only.
func NewTheme(p Palette, profile Profile, asciiOnly bool) *Theme {
	t := &Theme{Glyph: unicodeGlyphs, ascii: asciiOnly}
	if asciiOnly {
		t.Glyph = asciiGlyphs
	}
	if profile == Dumb {
		return t
	}
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profiles[profile])
	for role := range roles {
		style := r.NewStyle()
		if p == Auto {
			p = Ansi
		}
		if profile > NoColor {
			style = style.Foreground(colours[p][role])
		}
		for attr := range attrs {
			s := style.Bold(attr&Bold != 0).Reverse(attr&Selected != 0)
			prefix, suffix, _ := strings.Cut(s.Render("x"), "x")
			t.pairs[int(role)*int(attrs)+int(attr)] = pair{prefix, suffix}
		}
	}
	return t
}

func (t *Theme) escapes(s Style) (prefix, suffix string) {
	p := t.pairs[int(s.Role)*int(attrs)+int(s.Attr)]
	return p.prefix, p.suffix
}

// profiles are the library's. It would leave attributes out, too, for a terminal
// without colours, so that one is a terminal of 16 which no style has a colour for.
var profiles = map[Profile]termenv.Profile{NoColor: termenv.ANSI, Ansi16: termenv.ANSI, Ansi256: termenv.ANSI256, TrueColor: termenv.TrueColor}

// colours are the foreground colours of the roles.
var colours = map[Palette][roles]lipgloss.Color{
	Ansi:  {Text: "", Muted: "8", Accent: "6", OK: "2", Warn: "3", Danger: "1", Info: "4", Border: "8", BorderFocus: "6"},
	Dark:  {Text: "#d0d4dc", Muted: "#7f8794", Accent: "#7fc8ff", OK: "#8fd18f", Warn: "#e6c067", Danger: "#ff7b72", Info: "#a5b8ff", Border: "#4b5362", BorderFocus: "#7fc8ff"},
	Light: {Text: "#24292f", Muted: "#6a737d", Accent: "#005cc5", OK: "#1a7f37", Warn: "#9a6700", Danger: "#b31d28", Info: "#5a32a3", Border: "#b0b7c0", BorderFocus: "#005cc5"},
	Modus: {Text: "", Muted: "#989898", Accent: "#00d3d0", OK: "#2fafff", Warn: "#d0bc00", Danger: "#ff8059", Info: "#b6a0ff", Border: "#646464", BorderFocus: "#00d3d0"},
}

// Glyphs are the characters that screens draw with, each one column wide. A
// state is never shown by its glyph or its colour alone: its word is beside it.
type Glyphs struct {
	Thin, Heavy                              lipgloss.Border
	Done, Running, Queued, Waiting, Failed   string
	FailedSafe, Skipped, Aborted, Expired    string
	Cursor, Mark, More, BarFull, BarEmpty    string
	Live, Stale, Open, Closed                string // Open and Closed: a folded list
	ArrowRight, ArrowDown, ArrowUp           string
	BranchDown, BranchRight, BranchUp, Cross string // of edges: ┬ ├ ┴ ┼
	CornerDown, CornerUp, JoinUp             string // ╮ ╯ ╰, ┤ is JoinLeft
	JoinLeft                                 string
	Dot, Times                               string
}

var unicodeGlyphs = Glyphs{
	Thin: lipgloss.RoundedBorder(), Heavy: lipgloss.ThickBorder(),
	Done: "✓", Running: "●", Queued: "○", Waiting: "!", Failed: "✗",
	FailedSafe: "~", Skipped: "-", Aborted: "x", Expired: "-",
	Cursor: ">", Mark: "*", More: "…", BarFull: "█", BarEmpty: "░",
	Live: "●", Stale: "○", Open: "▼", Closed: "▶",
	ArrowRight: "▶", ArrowDown: "↓", ArrowUp: "↑",
	BranchDown: "┬", BranchRight: "├", BranchUp: "┴", Cross: "┼",
	CornerDown: "╮", CornerUp: "╯", JoinUp: "╰", JoinLeft: "┤",
	Dot: "·", Times: "×",
}

// asciiMarks are what a theme of ASCII draws for punctuation of one column, in pml's own texts and
// in foreign ones. It keeps letters of other scripts: a name that is spelt anew is another one.
var asciiMarks = map[string]string{
	"«": "<", "»": ">", "…": "~", "·": ".", "×": "x", "╰": "`", "–": "-", "—": "-", "‘": "'", "’": "'", "“": `"`, "”": `"`, "→": ">", "←": "<", "✓": "+", "✗": "X",
}

// drawn is what is drawn for a grapheme.
func (t *Theme) drawn(cluster string) string {
	if !t.ascii {
		return cluster
	}
	return cmp.Or(asciiMarks[cluster], cluster)
}

var asciiGlyphs = Glyphs{
	Thin:  lipgloss.ASCIIBorder(),
	Heavy: lipgloss.Border{Top: "=", Left: "#", TopLeft: "#", TopRight: "#", BottomLeft: "#", BottomRight: "#"},
	Done:  "+", Running: "*", Queued: ".", Waiting: "!", Failed: "X",
	FailedSafe: "~", Skipped: "-", Aborted: "x", Expired: "-",
	Cursor: ">", Mark: "*", More: "~", BarFull: "#", BarEmpty: ".",
	Live: "*", Stale: "o", Open: "v", Closed: ">",
	ArrowRight: ">", ArrowDown: "v", ArrowUp: "^",
	BranchDown: "+", BranchRight: "+", BranchUp: "+", Cross: "+",
	CornerDown: "+", CornerUp: "+", JoinUp: "+", JoinLeft: "+",
	Dot: ".", Times: "x",
}
