package tui

import "github.com/casys-ai/pml/tui/paint"

// Profile is what a terminal can show, as its environment says.
func Profile(environ func(string) (string, bool)) paint.Profile { return paint.NoColor }

// UTF8 reports whether the locale is one of UTF-8.
func UTF8(environ func(string) (string, bool)) bool { return true }
