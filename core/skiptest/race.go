//go:build race

package skiptest

// Race reports whether the race detector runs. It makes what computes ten times slower.
const Race = true
