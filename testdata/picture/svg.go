package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/hinshun/vt10x"
)

// The size of a cell and the margin around the grid, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 18
	margin     = 12
)

// palette is a terminal's 16 colours, and those of text and ground where a program
// sets none.
type palette struct {
	text, ground string
	ansi         [16]string
}

var dark = palette{"#c9d1d9", "#0d1117", [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
}}

var light = palette{"#24292f", "#ffffff", [16]string{
	"#24292f", "#cf222e", "#116329", "#4d2d00", "#0969da", "#8250df", "#1b7c83", "#6e7781",
	"#57606a", "#a40e26", "#1a7f37", "#633c01", "#218bff", "#a475f9", "#3192aa", "#8c959f",
}}

// bold and underlined are vt10x's bits of Glyph.Mode, which it does not export.
const (
	underlined = 1 << 1
	bold       = 1 << 2
)

// svg draws what a terminal shows. Each run of cells that look alike is one text
// element with a fixed length, so that the grid holds in whatever font is there.
func (p *palette) svg(term vt10x.Terminal, cols, rows int) string {
	w, h := float64(cols)*cellWidth+2*margin, float64(rows*cellHeight+2*margin)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", p.ground)
	fmt.Fprintln(&b, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14">`)
	for y := range rows {
		for x := 0; x < cols; {
			first := term.Cell(x, y)
			end := x + 1
			for end < cols && alike(first, term.Cell(end, y)) {
				end++
			}
			p.writeRun(&b, term, x, end, y)
			x = end
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

func alike(a, b vt10x.Glyph) bool { return a.FG == b.FG && a.BG == b.BG && a.Mode == b.Mode }

func (p *palette) writeRun(b *strings.Builder, term vt10x.Terminal, x, end, y int) {
	g := term.Cell(x, y)
	left, top, width := margin+float64(x)*cellWidth, float64(margin+y*cellHeight), float64(end-x)*cellWidth
	if back := p.colour(g.BG); back != p.ground {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", left, top, width, cellHeight, back)
	}
	var runes []rune
	for i := x; i < end; i++ {
		c := term.Cell(i, y).Char
		if c == 0 {
			c = ' '
		}
		runes = append(runes, c)
	}
	line := string(runes)
	if strings.TrimSpace(line) == "" {
		return
	}
	more := ""
	if g.Mode&bold != 0 {
		more += ` font-weight="bold"`
	}
	if g.Mode&underlined != 0 {
		more += ` text-decoration="underline"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f" fill="%s"%s>`, left, top+13.5, width, p.colour(g.FG), more)
	// Browsers take spaces at the ends away, xml:space or not, and stretch what is left.
	_ = xml.EscapeText(b, []byte(strings.ReplaceAll(line, " ", "\u00a0"))) // a Builder takes everything
	b.WriteString("</text>\n")
}

// colour is a colour of vt10x as SVG has it: one of the 16, of the 256, or 24 bits.
func (p *palette) colour(c vt10x.Color) string {
	switch {
	case c == vt10x.DefaultFG:
		return p.text
	case c >= 1<<24: // the defaults of the ground and of the cursor
		return p.ground
	case c < 16:
		return p.ansi[c]
	case c < 232:
		n := int(c) - 16
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	case c < 256:
		grey := 8 + 10*(int(c)-232)
		return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
	default:
		return fmt.Sprintf("#%06x", uint32(c))
	}
}
