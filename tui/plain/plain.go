// Package plain is the terminal for screen readers and dumb terminals: a
// dialogue of lines, without any redrawing, with the same decisions.
package plain
