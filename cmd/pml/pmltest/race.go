//go:build race

package pmltest

// Race makes the largest tests smaller.
const Race = true
