//go:build !race

package sandbox

// dataMargin is added to a child's memory limit; only race builds need it.
const dataMargin = 0
