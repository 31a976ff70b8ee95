package paint

// Box is the lines of a frame.
type Box struct{ TopLeft, TopRight, BottomLeft, BottomRight, Horizontal, Vertical string }

// Glyphs are the characters that screens draw with, each one column wide. A
// state is never shown by its glyph or its colour alone: its word is beside it.
type Glyphs struct {
	Thin, Heavy                              Box
	Done, Running, Queued, Waiting, Failed   string
	FailedSafe, Skipped, Aborted, Expired    string
	Cursor, Mark, More, BarFull, BarEmpty    string
	Live, Stale, Open, Closed                string // Open and Closed: a folded list
	ArrowRight, ArrowDown, ArrowUp           string
	BranchDown, BranchRight, BranchUp, Cross string // of edges: ┬ ├ ┴ ┼
	CornerDown, CornerUp, JoinUp             string // ╮ ╯ ╰, ┤ is JoinLeft
	JoinLeft                                 string
	Dot                                      string
}

var unicodeGlyphs = Glyphs{
	Thin:  Box{"╭", "╮", "╰", "╯", "─", "│"},
	Heavy: Box{"┏", "┓", "┗", "┛", "━", "┃"},
	Done:  "✓", Running: "●", Queued: "○", Waiting: "!", Failed: "✗",
	FailedSafe: "~", Skipped: "-", Aborted: "x", Expired: "-",
	Cursor: ">", Mark: "*", More: "…", BarFull: "█", BarEmpty: "░",
	Live: "●", Stale: "○", Open: "▼", Closed: "▶",
	ArrowRight: "▶", ArrowDown: "↓", ArrowUp: "↑",
	BranchDown: "┬", BranchRight: "├", BranchUp: "┴", Cross: "┼",
	CornerDown: "╮", CornerUp: "╯", JoinUp: "╰", JoinLeft: "┤",
	Dot: "·",
}

var asciiGlyphs = Glyphs{
	Thin:  Box{"+", "+", "+", "+", "-", "|"},
	Heavy: Box{"#", "#", "#", "#", "=", "#"},
	Done:  "+", Running: "*", Queued: ".", Waiting: "!", Failed: "X",
	FailedSafe: "~", Skipped: "-", Aborted: "x", Expired: "-",
	Cursor: ">", Mark: "*", More: "~", BarFull: "#", BarEmpty: ".",
	Live: "*", Stale: "o", Open: "v", Closed: ">",
	ArrowRight: ">", ArrowDown: "v", ArrowUp: "^",
	BranchDown: "+", BranchRight: "+", BranchUp: "+", Cross: "+",
	CornerDown: "+", CornerUp: "+", JoinUp: "+", JoinLeft: "+",
	Dot: ".",
}
