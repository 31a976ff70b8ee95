//go:build race

package sandbox

// dataMargin is what the race detector's shadow memory takes in a child.
const dataMargin = 8 << 30
