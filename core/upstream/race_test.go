//go:build race

package upstream_test

// slowdown is how much longer things may take with the race detector.
const slowdown = 4
