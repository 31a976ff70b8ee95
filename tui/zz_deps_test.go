package tui

import (
	_ "github.com/hinshun/vt10x"
)
