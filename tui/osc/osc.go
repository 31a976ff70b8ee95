// Package osc makes the control sequences that tell a terminal something beside
// the text on it: bells, notifications, the clipboard, its title, progress.
// Everything is text that no foreign byte can break out of.
package osc
