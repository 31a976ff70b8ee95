package tui

import (
	"strings"

	"github.com/casys-ai/pml/tui/paint"
)

// Profile says what a terminal can show, from the variables of the environment:
// NO_COLOR, CLICOLOR, CLICOLOR_FORCE, COLORTERM and TERM. It asks the terminal
// nothing.
func Profile(environ func(name string) (string, bool)) paint.Profile {
	get := func(name string) string { v, _ := environ(name); return v }
	term := strings.ToLower(get("TERM"))
	if term == "" && windows(environ) {
		term = "xterm-256color"
	}
	force := get("CLICOLOR_FORCE")
	forced := force != "" && force != "0"
	switch {
	case term == "" || term == "dumb":
		if forced && get("NO_COLOR") == "" {
			return paint.Ansi16
		}
		return paint.Dumb
	case get("NO_COLOR") != "":
		return paint.NoColor
	case get("CLICOLOR") == "0" && !forced:
		return paint.NoColor
	}
	p := colours(term, strings.ToLower(get("COLORTERM")), get("TERM_PROGRAM"))
	if forced {
		p = max(p, paint.Ansi16)
	}
	return p
}

// colours says how many colours a terminal has.
func colours(term, colorterm, program string) paint.Profile {
	switch colorterm {
	case "truecolor", "24bit":
		if strings.HasPrefix(term, "screen") && program != "tmux" {
			return paint.Ansi256 // screen passes no more on
		}
		return paint.TrueColor
	}
	switch {
	case strings.HasSuffix(term, "-direct"):
		return paint.TrueColor
	case term == "alacritty", term == "contour", term == "wezterm", term == "foot", term == "xterm-ghostty", term == "xterm-kitty":
		return paint.TrueColor
	case strings.Contains(term, "256color"):
		return paint.Ansi256
	case strings.HasPrefix(term, "vt1"), strings.HasPrefix(term, "vt2"), strings.HasSuffix(term, "-mono"), strings.HasSuffix(term, "-m"):
		return paint.NoColor
	}
	return paint.Ansi16
}

// UTF8 reports whether the locale of the environment shows more than ASCII. A
// terminal where it does not is drawn on with ASCII characters only.
func UTF8(environ func(name string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := environ(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return windows(environ) // where no locale is set, and Unicode is shown
}

// windows reports whether the environment is one of Windows, where neither TERM
// nor a locale is set.
func windows(environ func(name string) (string, bool)) bool {
	v, _ := environ("OS")
	return v == "Windows_NT"
}
