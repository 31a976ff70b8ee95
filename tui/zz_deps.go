package tui

import (
	_ "github.com/charmbracelet/bubbletea" // until program.go is there
	_ "github.com/charmbracelet/x/ansi"
)
