// Package noprobe keeps the terminal library from asking the terminal anything
// when the process starts.
//
// bubbletea v1 asks for the background colour from a package initialiser, and
// waits five seconds where no terminal answers, in every command of a binary
// that links it. This package tells the answer first: Go initialises packages
// that are ready in the order of their import paths, and this one sorts before
// bubbletea and needs nothing but lipgloss. A test on the real binary holds it.
package noprobe

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
